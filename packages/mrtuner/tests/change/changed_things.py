"""Everything that can be changed, as tests use it: reset to a start, changed, inspected."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import killed_preload
from mrtuner.change import roles
from mrtuner.change.journal import Journal
from mrtuner.change.record import Outcome, ParameterChange
from mrtuner.change.settings import apply as settings
from mrtuner.change.settings.apply import NEVER, Restart
from mrtuner.change.settings.draft import INCLUDE_FILE
from mrtuner.change.transaction import Observer, unobserved
from mrtuner.postgres.connect import connect
from mrtuner.postgres.read_server import read
from mrtuner.vacuum import apply as storage
from rds_flows import FEW, MANY, everything, new_group, new_instance
from rdstune.lab import Lab
from rdstune.live import apply as groups
from rdstune.live.plan import WantedValue
from rdstune.live.target import read_target
from rdstune.live.undo import undo as undo_group
from rdstune.live.wait import Pace
from servers import sql
from waiting import until


class Calls(Protocol):
    """Apply and undo in a process that is killed: pickled, so without open connections."""

    def apply(self, journal: Journal, at: Observer = unobserved) -> None:
        """Change the thing from its start to its target."""

    def undo(self, journal: Journal, at: Observer = unobserved) -> None:
        """Take the last change back."""


class Thing(Protocol):
    """Something that an adapter changes."""

    @property
    def calls(self) -> Calls:
        """The calls that change it."""

    def reset(self) -> None:
        """Return it to its start from any state."""

    def finish_or_revert(self, journal: Journal) -> Outcome | None:
        """Finish or revert the change that a killed run left."""

    def now(self) -> Any:
        """The state of all that a change may touch."""

    def at_target(self, now: Any) -> bool:
        """Whether this state is the target."""

    def mixed(self) -> bool:
        """Whether neither its start nor its target is in force, in the middle of a change."""


@dataclass(frozen=True)
class Settings:
    """Three settings of a server, one of which needs a restart."""

    dsn: str
    data: Path
    command: str  # restarts the server
    restarts: bool = False
    conf_dir: Path | None = None  # an include file there, instead of ALTER SYSTEM

    WANTED = (
        settings.Wanted(name="random_page_cost", value="1.1"),
        settings.Wanted(name="shared_buffers", value="64MB"),
        settings.Wanted(name="work_mem", value="64MB"),
    )

    @property
    def calls(self) -> Calls:
        return self

    START = ("4", "16384", "8192")
    LINES = ("random_page_cost = '1.1'", "shared_buffers = '64MB'", "work_mem = '64MB'")

    def reset(self) -> None:
        for left in (self.data / "conf.d").iterdir():  # another case may have left one
            left.unlink()
        sql(self.dsn, "ALTER SYSTEM RESET ALL")
        if self.conf_dir is None:
            sql(self.dsn, "ALTER SYSTEM SET work_mem = '8MB'")
        sql(self.dsn, "SELECT pg_reload_conf()")
        if self.in_force()[1] != self.START[1]:
            subprocess.run(["sh", "-c", self.command], check=True, stdout=subprocess.DEVNULL)
        until(lambda: self.in_force() == self.START)

    def apply(self, journal: Journal, at: Observer = unobserved) -> None:
        with connect(self.dsn) as conn:
            made = settings.plan(read(conn), self.WANTED)
        settings.apply(
            self.dsn, made, journal, restart=self._restart, conf_dir=self.conf_dir, at=at
        )

    def undo(self, journal: Journal, at: Observer = unobserved) -> None:
        settings.undo(self.dsn, journal, restart=self._restart, at=at)

    def finish_or_revert(self, journal: Journal) -> Outcome | None:
        return settings.finish_or_revert_settings(self.dsn, journal, restart=self._restart)

    @property
    def _restart(self) -> Restart:
        return Restart(run=self.command) if self.restarts else NEVER

    def now(self) -> tuple[tuple[str, ...], list[str]]:
        return self.in_force(), sorted(self._lines())

    def _lines(self) -> list[str]:
        file = self.data / "postgresql.auto.conf"
        if self.conf_dir is not None:
            file = self.conf_dir / INCLUDE_FILE
        text = file.read_text() if file.exists() else "(there is none)"
        return [line for line in text.splitlines() if not line.startswith("#")]

    def in_force(self) -> tuple[str, ...]:
        """What a new session sees."""
        names = ", ".join(f"'{one.name}'" for one in self.WANTED)
        rows = sql(
            self.dsn, f"SELECT setting FROM pg_settings WHERE name IN ({names}) ORDER BY name"
        )
        return tuple(row[0] for row in rows)

    def at_target(self, now: tuple[tuple[str, ...], list[str]]) -> bool:
        values, lines = now
        return values == self._target and set(self.LINES) <= set(lines)

    @property
    def _target(self) -> tuple[str, ...]:
        return ("1.1", "8192" if self.restarts else "16384", "65536")  # else it waits

    def mixed(self) -> bool:
        return self.in_force() not in (self.START, self._target)


@dataclass(frozen=True)
class StorageParameters:
    """Three parameters of two tables, one of them of a TOAST table."""

    dsn: str

    @property
    def calls(self) -> Calls:
        return self

    SCALE = "autovacuum_vacuum_scale_factor"
    ENTRIES = tuple(
        ParameterChange(
            name=f'"public"."{table}" {name}', before=before, after=after, restart=False,
            in_force="",
        )
        for table, name, before, after in (
            ("one", SCALE, "0.3", "0.01"),
            ("one", f"toast.{SCALE}", None, "0"),
            ("two", SCALE, None, "0.01"),
        )
    )  # fmt: skip

    def reset(self) -> None:
        sql(
            self.dsn,
            "DROP TABLE IF EXISTS one, two",
            f"CREATE TABLE one (id int, note text) WITH ({self.SCALE} = 0.3)",
            "CREATE TABLE two (id int, note text)",
        )

    def apply(self, journal: Journal, at: Observer = unobserved) -> None:
        storage.StorageParameters.apply(self.dsn, self.ENTRIES, journal, at=at)

    def undo(self, journal: Journal, at: Observer = unobserved) -> None:
        storage.StorageParameters.undo(self.dsn, journal, at=at)

    def finish_or_revert(self, journal: Journal) -> Outcome | None:
        return storage.StorageParameters.finish_or_revert_interrupted(self.dsn, journal)

    def now(self) -> list[Any]:
        """The options of table one, of its TOAST table, and of table two."""
        ((one, toast),) = sql(
            self.dsn,
            "SELECT c.reloptions, t.reloptions FROM pg_class AS c "
            "JOIN pg_class AS t ON t.oid = c.reltoastrelid WHERE c.oid = 'one'::regclass",
        )
        ((two,),) = sql(self.dsn, "SELECT reloptions FROM pg_class WHERE oid = 'two'::regclass")
        return [one, toast, two]

    def at_target(self, now: list[Any]) -> bool:
        return now == [[f"{self.SCALE}=0.01"], [f"{self.SCALE}=0"], [f"{self.SCALE}=0.01"]]

    def mixed(self) -> bool:
        now = self.now()
        return not self.at_target(now) and now != [[f"{self.SCALE}=0.3"], None, None]


@dataclass(frozen=True)
class RoleSettings:
    """A setting of each of two roles; one had a value before, the other has an odd name."""

    dsn: str

    @property
    def calls(self) -> Calls:
        return self

    ENTRIES = tuple(
        ParameterChange(
            name=f"{role} work_mem", before=before, after="64MB", restart=False,
            in_force=before or "",
        )
        for role, before in (("killed plain", "8MB"), ('killed "odd" name', None))
    )  # fmt: skip

    def reset(self) -> None:
        for role in ("killed plain", 'killed ""odd"" name'):
            sql(self.dsn, f'DROP ROLE IF EXISTS "{role}"', f'CREATE ROLE "{role}"')
        sql(self.dsn, "ALTER ROLE \"killed plain\" SET work_mem = '8MB'")

    def apply(self, journal: Journal, at: Observer = unobserved) -> None:
        roles.RoleSettings.apply(self.dsn, self.ENTRIES, journal, at=at)

    def undo(self, journal: Journal, at: Observer = unobserved) -> None:
        roles.RoleSettings.undo(self.dsn, journal, at=at)

    def finish_or_revert(self, journal: Journal) -> Outcome | None:
        return roles.RoleSettings.finish_or_revert_interrupted(self.dsn, journal)

    def now(self) -> list[Any]:
        return [
            row[0]
            for row in sql(
                self.dsn,
                "SELECT s.setconfig FROM pg_roles AS r LEFT JOIN pg_db_role_setting AS s "
                "ON s.setrole = r.oid WHERE r.rolname LIKE 'killed%' ORDER BY r.rolname DESC",
            )
        ]

    def at_target(self, now: list[Any]) -> bool:
        return now == [["work_mem=64MB"], ["work_mem=64MB"]]

    def mixed(self) -> bool:
        now = self.now()
        return not self.at_target(now) and now != [["work_mem=8MB"], None]


#: The lab of these tests is twenty times as fast as elsewhere, so we poll more often.
PACE = Pace(first=0.005, most=0.01, grace=0.3, patience=30.0)


@dataclass(frozen=True)
class GroupCalls:
    """Apply and undo, each with a client made in the process where it runs."""

    endpoint: str
    wanted: tuple[WantedValue, ...]

    def apply(self, journal: Journal, at: Observer = unobserved) -> None:
        client = killed_preload.client(self.endpoint)
        made = groups.make(client, read_target(client, "db1"), self.wanted)
        groups.apply(client, made, journal, reboot="now", pace=PACE, at=at)

    def undo(self, journal: Journal, at: Observer = unobserved) -> None:
        client = killed_preload.client(self.endpoint)
        undo_group(client, "db1", journal, reboot="now", pace=PACE, at=at)


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters of an instance's group, some of them static; forty-five need three calls."""

    lab: Lab
    client: Any
    custom: bool  # the instance has its own group; else it gets one

    @property
    def calls(self) -> Calls:
        return GroupCalls(self.lab.endpoint_url, self._wanted)

    @property
    def _wanted(self) -> tuple[WantedValue, ...]:
        return MANY if self.custom else FEW

    def reset(self) -> None:
        self.lab.reset()
        if self.custom:
            new_group(self.client, work_mem="8192", log_temp_files="0", max_connections="120")
        new_instance(self.client, self.lab, group="shop" if self.custom else None)

    def finish_or_revert(self, journal: Journal) -> Outcome | None:
        return groups.finish_or_revert_group(self.client, "db1", journal, reboot="now", pace=PACE)

    def now(self) -> dict[str, Any]:
        """All that AWS shows, and what the instance runs."""
        return {**everything(self.client), "running": dict(self.lab.instance("db1").running)}

    def at_target(self, now: dict[str, Any]) -> bool:
        name = now["attached"]["db1"]
        group = now["groups"].get(name, {})
        return all(
            group.get(one.name) == now["running"].get(one.name) == one.value for one in self._wanted
        )

    def mixed(self) -> bool:
        """Never: several calls are not atomic, so dynamic parameters take effect call by call."""
        return False
