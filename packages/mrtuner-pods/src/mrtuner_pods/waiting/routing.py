"""Which pod a request is sent to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import count
from random import Random

#: Returns the pod of the next request, from the requests that each pod has now.
Router = Callable[[Sequence[int]], int]


class Routing(StrEnum):
    """How a load balancer chooses."""

    RANDOM = "random"
    ROUND_ROBIN = "round-robin"
    TWO_CHOICES = "two-choices"
    LEAST_CONNECTIONS = "least-connections"

    @property
    def words(self) -> str:
        return self.value.replace("-", " ")

    @property
    def looks(self) -> bool:
        """Whether it looks at how many requests a pod has."""
        return self in {Routing.TWO_CHOICES, Routing.LEAST_CONNECTIONS}


def router(routing: Routing, pods: int, chance: Random) -> Router:
    if pods == 1:
        return lambda _busy: 0
    return _MADE[routing](pods, chance)


def _random(pods: int, chance: Random) -> Router:
    return lambda _busy: int(chance.random() * pods)


def _round_robin(pods: int, _chance: Random) -> Router:
    turns = count()
    return lambda _busy: next(turns) % pods


def _two_choices(pods: int, chance: Random) -> Router:
    """The less busy of two different pods."""

    def choose(busy: Sequence[int]) -> int:
        one = int(chance.random() * pods)
        other = (one + 1 + int(chance.random() * (pods - 1))) % pods
        return other if busy[other] < busy[one] else one

    return choose


def _least_connections(pods: int, _chance: Random) -> Router:
    """The least busy; among equals the next in turn."""
    turns = count()

    def choose(busy: Sequence[int]) -> int:
        least, start = min(busy), next(turns) % pods
        try:
            return busy.index(least, start)
        except ValueError:
            return busy.index(least)

    return choose


_MADE = {
    Routing.RANDOM: _random,
    Routing.ROUND_ROBIN: _round_robin,
    Routing.TWO_CHOICES: _two_choices,
    Routing.LEAST_CONNECTIONS: _least_connections,
}
