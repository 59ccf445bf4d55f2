"""Simulated faults."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from rdstune.lab.refusals import Fault, denied
from rdstune.lab.world import ACCOUNT

#: A region can be closed to the account, unavailable, or unreachable; or an intermediary may
#: answer for it: with an empty body (403), or with a web page (200).
Failure = Literal["closed", "unavailable", "unreachable", "empty", "page"]


class Unreachable(Exception):
    """The connection should be closed without an answer."""


class Garbled(Exception):
    """The answer does not come from AWS."""

    def __init__(self, status: str, body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.body = body


@dataclass(slots=True)
class Rate:
    """A token bucket: this many calls per second, at most one second's worth saved up."""

    per_second: float
    clock: Callable[[], float] = time.monotonic
    left: float = field(init=False)
    seen: float = field(init=False)

    def __post_init__(self) -> None:
        self.left, self.seen = self.per_second, self.clock()

    def take(self) -> bool:
        """Whether one more call is allowed."""
        now = self.clock()
        self.left = min(max(1.0, self.per_second), self.left + (now - self.seen) * self.per_second)
        self.seen = now
        if self.left < 1:
            return False
        self.left -= 1
        return True


class Trouble:
    """The active faults: denied actions, a rate limit, failing regions. Rates count per region."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.denied: set[tuple[str, str]] = set()
        self.failing: dict[str, Failure] = {}
        self._rate: float | None = None
        self._buckets: dict[str, Rate] = {}
        self.throttled = 0

    def limit(self, per_second: float | None) -> None:
        """Answer Throttling to calls above this rate, per region; None: never."""
        with self._lock:
            self._rate = per_second
            self._buckets.clear()

    def clear(self) -> None:
        self.limit(None)
        self.denied.clear()
        self.failing.clear()
        self.throttled = 0

    def check(self, service: str, action: str, region: str) -> None:
        """Raise the fault that applies to this call, if any."""
        self._region(region)
        if not self._in_time(region):
            raise Fault("Throttling", "Rate exceeded")  # RDS API Reference, Common errors
        if (service, action) in self.denied:
            raise denied(service, action, ACCOUNT, region)

    def _region(self, region: str) -> None:
        match self.failing.get(region):
            case "closed":  # the answer of a region that the account has not opted in to
                raise Fault(
                    "InvalidClientTokenId",
                    "The security token included in the request is invalid.",
                    403,
                )
            case "unavailable":
                raise Fault("ServiceUnavailable", "Service is unavailable", 503)
            case "unreachable":
                raise Unreachable
            case "empty":
                raise Garbled("403 Forbidden", b"")
            case "page":
                raise Garbled("200 OK", b"<html><body>Please sign in</body></html>")

    def _in_time(self, region: str) -> bool:
        with self._lock:
            if self._rate is None:
                return True
            bucket = self._buckets.setdefault(region, Rate(self._rate))
            let = bucket.take()
            self.throttled += not let
            return let
