"""Patroni as a trigger: a switchover through its REST API, with members and history as marks.

Source: Patroni's documentation of the REST API (GET /cluster, GET /history, POST /switchover).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit, urlunsplit

from mrtuner.errors import ConnectError, MrTunerError, Refused, UsageError
from mrtuner.rehearsal.production import production_tag
from mrtuner.rehearsal.run import News

_LEADERS: Final = frozenset({"leader", "master"})  # master: before Patroni 4
#: The last one since 3.0.4: a replica that replays from the archive, and does not stream.
_WELL: Final = frozenset({"running", "streaming", "in archive recovery"})
_PATIENCE: Final = 5.0  # s, for an answer to a query
_SWITCHING: Final = 60.0  # s: POST /switchover answers when it is done
#: Or with this, after 20 s or twice loop_wait. Source: patroni/api.py, poll_failover_result.
_GOES_ON: Final = "status unknown"


@dataclass(frozen=True, slots=True)
class _Member:
    """What Patroni says of one member."""

    role: str
    state: str

    @property
    def leads(self) -> bool:
        return self.role in _LEADERS

    def __str__(self) -> str:
        """Return ``leader running``, ``replica streaming``."""
        return f"{'leader' if self.leads else self.role} {self.state}"


class Patroni:
    """One cluster, through the REST API of any of its members."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise UsageError(
                "cannot read the address of Patroni", "Write patroni:http://host:8008."
            )
        self._login = (unquote(parts.username or ""), unquote(parts.password or ""))
        place = parts.netloc.rpartition("@")[2]
        self.url = urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", ""))
        self._roles: dict[str, _Member] = {}
        self._ill: frozenset[str] = frozenset()  # by name, those that were before
        self._past = 0

    @property
    def words(self) -> str:
        return f"Patroni at {self.url}, switchover"

    @property
    def over(self) -> bool:
        """Whether there is a leader, and every member is healthy that was before."""
        members = self._roles
        return any(one.leads for one in members.values()) and all(
            one.state in _WELL for name, one in members.items() if name not in self._ill
        )

    def check(self) -> None:
        """Refuse a switchover that cannot work.

        ConnectError without an answer; Refused for production; MrTunerError without a leader or a
        running replica.
        """
        members = self._members()
        _refuse_production(members)
        if not self._leader(members):
            raise MrTunerError("the cluster has no leader", "See: patronictl list.")
        if len([one for one in members.values() if one.get("state") in _WELL]) < 2:
            raise MrTunerError(
                "no replica is running, so there is nothing to switch over to",
                "See: patronictl list.",
            )
        self._roles = _roles(members)
        self._ill = frozenset(name for name, one in self._roles.items() if one.state not in _WELL)
        self._past = len(self._history())

    def cautions(self, _dsn: str) -> tuple[str, ...]:
        """None: the probes see which server answers."""
        return ()

    def fire(self) -> None:
        """Request a switchover to whichever replica Patroni prefers."""
        leader = self._leader(self._members())
        self._call("/switchover", {"leader": leader}, patience=_SWITCHING)

    def news(self) -> Iterator[News]:
        """Yield members whose role or state changed, and new lines of the history."""
        roles = _roles(self._members())
        for name, role in roles.items():
            if role != self._roles.get(name):
                yield News(f"{name} is {role}", "patroni")
        for name in self._roles.keys() - roles.keys():
            yield News(f"{name} is gone", "patroni")
        self._roles = roles
        history = self._history()
        for line in history[self._past :]:
            yield _promotion(line)
        self._past = len(history)

    def _leader(self, members: Mapping[str, Mapping[str, Any]]) -> str | None:
        names = (name for name, one in members.items() if one.get("role") in _LEADERS)
        return next(names, None)

    def _members(self) -> dict[str, Mapping[str, Any]]:
        told = self._call("/cluster")
        return {str(one["name"]): one for one in told.get("members", ())}

    def _history(self) -> list[list[Any]]:
        return list(self._call("/history"))

    def _call(
        self, path: str, body: Mapping[str, Any] | None = None, *, patience: float = _PATIENCE
    ) -> Any:
        """Return the answer, parsed if it is JSON. ConnectError if there is no answer.

        None if what was asked for with `body` goes on: a switchover may take longer than we wait.
        """
        from urllib.error import HTTPError, URLError
        from urllib.request import Request, urlopen

        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, self._headers())  # noqa: S310 - http(s) only
        try:
            with urlopen(request, timeout=patience) as answer:  # noqa: S310
                return _read(answer.read())
        except TimeoutError:  # sent, and not answered in time
            if body is not None:
                return None
            raise self._silent("timed out") from None
        except HTTPError as error:
            said = " ".join(error.read().decode(errors="replace").split())
            if said.endswith(_GOES_ON):
                return None
            raise MrTunerError(
                f"Patroni rejected {path}: {error.code} {said}",
                "See Patroni's log. Give a user and password in the address.",
            ) from None
        except (URLError, OSError) as error:
            raise self._silent(getattr(error, "reason", error)) from None

    def _silent(self, reason: object) -> ConnectError:
        return ConnectError(
            f"Patroni at {self.url} does not respond: {reason}",
            "Check the address of its REST API, usually port 8008.",
        )

    def _headers(self) -> dict[str, str]:
        from base64 import b64encode

        if not any(self._login):
            return {}
        return {"Authorization": f"Basic {b64encode(':'.join(self._login).encode()).decode()}"}


def _refuse_production(members: Mapping[str, Mapping[str, Any]]) -> None:
    for name, member in members.items():
        tags = {key: str(value) for key, value in member.get("tags", {}).items()}
        if tag := production_tag(tags):
            raise Refused(
                f"{name} is tagged {tag}: a rehearsal would take production down",
                "Rehearse on a test cluster of the same kind.",
            )


def _roles(members: Mapping[str, Mapping[str, Any]]) -> dict[str, _Member]:
    return {
        name: _Member(str(one.get("role")), str(one.get("state"))) for name, one in members.items()
    }


def _promotion(line: list[Any]) -> News:
    """Convert a line of the history: timeline, LSN, reason, moment, new leader."""
    timeline, _lsn, reason, *rest = line
    at = datetime.fromisoformat(str(rest[0])) if rest else None
    leader = f", {rest[1]} leads" if len(rest) > 1 else ""
    return News(f"timeline {timeline} ended: {reason}{leader}", "patroni", at)


def _read(answer: bytes) -> Any:
    try:
        return json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace")
