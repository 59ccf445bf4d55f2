"""Whether servers are all right: every check on each, one list for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

from mrtuner import extensions
from mrtuner.answers.autovacuum import WEEK, busiest_rates
from mrtuner.answers.recorded import remembered
from mrtuner.answers.targets import TargetKind, kind_of
from mrtuner.checks.catalogue import known
from mrtuner.checks.read import read
from mrtuner.checks.report import CheckReport, judged, unreachable, unread
from mrtuner.checks.state import Added, Recorded, State
from mrtuner.errors import OF_THE_SERVER, BadValue, ConnectError, UsageError
from mrtuner.facts import Missing
from mrtuner.inputs import MachineInputs
from mrtuner.postgres.connect import masked
from mrtuner.tuning import gather

if TYPE_CHECKING:
    from mrtuner.aws.session import Account
    from mrtuner.checks.catalogue import Addition, Located
    from mrtuner.history.analysis.period import HistoryPeriod
    from mrtuner.history.reading import History
    from mrtuner.vacuum import Vacuum

#: How far back a history is looked at [s].
_DAY: Final = 86_400.0


def check(
    target: str = "",
    *,
    skip: Collection[str] = (),
    history: Path | str | None = None,
    instance: str | None = None,
    including: Collection[str] = (),
    account: Account | None = None,
    **machine: Unpack[MachineInputs],
) -> CheckReport:
    """Check the server that `target` leads to, by default the one that psql would find.

    Reads only, in one session, and gives up a query after two seconds: what it would have shown is
    not judged. `skip` are ids of checks to leave out. With a `history` that ``mrtuner record``
    wrote, of which `instance` names the server, what its last day shows is told as well: what went
    wrong, when a volume is full, which limits of the host were reached. Vacuum is then judged by
    each table's busiest day of a week.

    `including` is what else is looked at, ``pods:deployment.yaml`` or ``rds:orders``, by installed
    distributions; `account` is that of AWS. The target ``rds:orders`` is that instance, and its
    server as psql reaches it at the endpoint: where it does not, only AWS's side is judged.
    `machine` is what cannot be read over SQL, such as ``memory="16GB"``, as in `tune`.

    Raises:
        ConnectError: the server refuses this session. One that has none for anybody is a finding.
        AwsError: AWS refuses to describe the instance that is the target.
        BadValue: an input is invalid, or there is no check of a name to skip.
        MissingPart: a distribution is not installed.
    """
    left_out = known(frozenset(skip))
    given, located = _additions(target, including, account)
    dsn, name = target, target if located else masked(target) or "local"
    if located is not None:
        said: Any = {key: value for key, value in machine.items() if value is not None}
        machine = located.machine | said
        left_out |= located.instead_of
        if located.dsn is None:
            return unread(name, Missing("", "it has no endpoint"), given, left_out)
        dsn = located.dsn
    try:
        state = read(dsn, gather.flags(**machine), located.platform if located else None)
    except ConnectError as error:
        why = Missing("", error.message, hint=error.hint)
        if located is not None:
            return unread(name, why, given, left_out)
        if error.cause not in OF_THE_SERVER:
            raise
        return unreachable(name, why, given, left_out)
    state = replace(state, added=given.added, missing={**state.missing, **given.missing})
    if history is not None:
        state = _with_history(state, history, instance)
    return judged(name, state, left_out)


def _additions(
    target: str, including: Collection[str], account: Account | None
) -> tuple[Added, Located | None]:
    """What was read for other distributions' checks, and where a target of theirs is."""
    from mrtuner.aws.errors import AwsError
    from mrtuner.aws.session import Account

    added: dict[str, Any] = {}
    missing: dict[str, Missing] = {}
    located: Located | None = None
    mine = [target] if kind_of(target) is TargetKind.RDS else []
    for asked in [*mine, *including]:
        name, _, rest = asked.partition(":")
        addition: Addition | None = extensions.load(extensions.CHECKS, name) if rest else None
        if addition is None:
            raise BadValue(
                f"nothing looks at {asked!r}", "Write pods:deployment.yaml, or rds:INSTANCE."
            )
        if name in added or name in missing:
            raise BadValue(f"{name} is given twice", "Check the servers one by one.")
        try:
            added[name] = addition.read(rest, account or Account())
        except AwsError as error:
            if asked in mine:
                raise
            missing[name] = Missing(name, error.message, hint=error.hint)
        if asked in mine and addition.locate is not None:
            located = addition.locate(added[name])
    return Added(added=added, missing=missing), located


def _with_history(state: State, directory: Path | str, instance: str | None) -> State:
    from mrtuner.answers import ceilings
    from mrtuner.answers.incidents import without_ceilings
    from mrtuner.history.analysis.free_space import free_space
    from mrtuner.history.analysis.not_looked_for import not_looked_for
    from mrtuner.history.analysis.period import period, since_recorded
    from mrtuner.history.analysis.role_peaks import role_peaks

    with remembered(directory, instance, since=_DAY) as (history, about):
        reached = ceilings.judged(history, about)
        since = since_recorded(history, about)
        recorded = Recorded(
            store=history.name,
            instance=about.instance,
            begin=since.begin,
            end=about.end,
            incidents=without_ceilings(history, since),
            not_looked_for=not_looked_for(history, since),
            filesystems=free_space(history, about),
            role_peaks=role_peaks(history, about),
            limits=reached.limits,
            no_limits=reached.why,
        )
        vacuum = _busiest(state, history, period(history, about.instance, since=WEEK))
    return replace(state, recorded=recorded, vacuum=vacuum)


def _busiest(state: State, history: History, week: HistoryPeriod) -> Vacuum | None:
    """What vacuum needs on the busiest day, if this database's tables were recorded."""
    from mrtuner.vacuum import judge

    try:
        known = busiest_rates(history, week)
    except UsageError:  # the counters of the server itself still count
        return state.vacuum
    mine = {oid: rates for (database, oid), rates in known.items() if database == state.database}
    return judge(state.vacuum.picture, mine) if state.vacuum and mine else state.vacuum


class CheckTarget(NamedTuple):
    """One of several servers: its name, where it is, its instance of RDS, and its machine."""

    name: str
    target: str
    including: str | None = None
    machine: MachineInputs = MachineInputs()


def check_all(
    servers: Iterable[CheckTarget], *, skip: Collection[str] = (), account: Account | None = None
) -> list[CheckReport]:
    """Check several servers, one after the other. One that cannot be read is not judged."""
    from mrtuner.aws.errors import AwsError

    reports = []
    for name, target, rds, machine in servers:
        try:
            report = check(
                target, skip=skip, including=[rds] if rds else [], account=account, **machine
            )
            reports.append(replace(report, target=name))
        except (ConnectError, AwsError) as error:
            why = Missing("", error.message, hint=error.hint)
            reports.append(unread(name, why, Added(), known(frozenset(skip))))
    return reports
