"""Do the connections of pods fit the server that is checked? For `mrtuner check --with pods:FILE`.

REST is a file of Kubernetes objects, or several, separated by commas.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.checks.catalogue import Addition, CannotJudge, added, check
from mrtuner.findings import Finding, Severity
from mrtuner.wording import enumerated

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.checks.state import State
    from mrtuner_pods.connections import Manifest

_NAME: Final = "pods"
_SHOWN: Final = 5


def _read(names: str, _account: Account) -> list[Manifest]:
    from mrtuner.files import read_file
    from mrtuner_pods.connections import Manifest

    return [Manifest(read_file(Path(name)), name) for name in names.split(",")]


ADDITION: Final = Addition(read=_read)


@check(
    "pods-exceed-limit",
    judged="every pod of a rollout, with every connection that its pools allow, needs more than "
    "max_connections or the limit of a role or database admits",
    source="docs: Fit pods to connections; postinit.c, InitPostgres",
    remedy="Smaller pools, fewer pods at a time, a pooler, or more connections.",
    needs=(_NAME, "limits"),
)
def pods_exceed_limit(state: State) -> Iterator[Finding]:
    """The application's pods can open more connections than the server admits, usually during a
    rollout, when old and new pods run together. Only with --with pods:MANIFEST.
    """
    from mrtuner.tuning.gather import Flags, live
    from mrtuner_pods.connections import check as fit
    from mrtuner_pods.connections.database import admitted
    from mrtuner_pods.connections.judge import count

    manifests = added(state, _NAME)
    if state.setting("max_connections") is None:
        raise CannotJudge("the role may not see max_connections")
    situation = live(Flags(), state.server, None).situation
    done = fit(admitted(state.server, state.limits, situation), manifests)
    files = " ".join(one.name for one in manifests)
    if done.servers:
        hint = f"mrtuner pods check {files} --database DSN judges those of one server."
        raise CannotJudge(f"the pods name several servers: {enumerated(done.servers)}", hint)
    for limit in done.limits:
        if limit.fits(done.stage):
            continue
        reached = limit.demand[done.stage]
        yield Finding(
            id="pods-exceed-limit",
            severity=Severity.TO_DO,
            text=f"pods can open {count(reached)} connections, and {limit.name} admits "
            f"{limit.capacity:,}",
            consequence="when they do, new pods and others are refused: too many clients already",
            cost=1 - 1 / max(1.0, limit.strain(done.stage)),
            evidence=tuple(
                f"{one.name} ({one.kind}): {count(one.reachable[done.stage])}, "
                f"{one.how[done.stage]}"
                for one in done.terms[:_SHOWN]
            ),
            basis=f"every pod of a rollout ({done.stage}), as {files} declares it",
            remedy=(f"mrtuner pods check {files}, with --database, shows three ways to fit",),
        )
    if done.unjudged:
        first = done.unjudged[0]
        raise CannotJudge("; ".join(f"{one.name}: {one.why}" for one in done.unjudged), first.hint)
