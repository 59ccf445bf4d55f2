"""The tools. A docstring is what the agent reads; the types are what it may say and is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar, get_type_hints

from mrtuner import answers
from mrtuner.agents.document import OfferedTool, ServersDocument, ToolsDocument
from mrtuner.agents.inputs import (
    CheckInputs,
    ExplainCheckInputs,
    ExplainInputs,
    FailoverInputs,
    Inputs,
    OfServer,
    PeriodInputs,
    PlansInputs,
    QueryInputs,
    TuneInputs,
    ViewsInputs,
)
from mrtuner.checks.catalogue import known
from mrtuner.checks.document import CheckDocument, ChecksDocument, check_document, checks_document
from mrtuner.documents import Document, as_builtins, schema, tag
from mrtuner.errors import UsageError
from mrtuner.failover.predict.document import PredictDocument, predict_document
from mrtuner.history.document import HistoryRows, HistorySummary
from mrtuner.history.query_part import Part
from mrtuner.inputs import MachineInputs
from mrtuner.limits.document import LimitsDocument, limits_document
from mrtuner.tuning.document import ExplainDocument, TuneDocument, tune_document
from mrtuner.tuning.explain import explain_document, known_parameter
from mrtuner.tuning.query_plans import compare
from mrtuner.vacuum.document import VacuumDocument, vacuum_document
from mrtuner.wording import enumerated


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """What the tools may read: servers by name, whose connection strings no tool shows."""

    servers: Mapping[str, str] = field(repr=False)
    history: Path | None = None

    def dsn(self, name: str | None) -> tuple[str, str]:
        """The name and the connection string. UsageError for an unknown or a missing name."""
        if name is None and len(self.servers) == 1:
            return next(iter(self.servers.items()))
        if name is not None and name in self.servers:
            return name, self.servers[name]
        known = enumerated(sorted(self.servers), "or") or "none: start it with --config FILE"
        raise UsageError(
            "no server is named" if name is None else f"there is no server {name!r}",
            f"Name one of the servers: {known}.",
        )

    def recorded(self) -> Path:
        """Where the history is. UsageError without one."""
        if self.history is None:
            raise UsageError(
                "there is no history",
                "Start mrtuner mcp with --history DIR, or mrtuner serve --mcp on a local history.",
            )
        return self.history


#: How to come to a list in an answer.
Way = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One question that an agent may ask; `pages` are the paths of the lists that may be long."""

    name: str
    title: str
    answer: Callable[[Places, Any], Document]
    pages: tuple[Way, ...]

    @property
    def description(self) -> str:
        return " ".join((self.answer.__doc__ or "").split())

    @property
    def takes(self) -> type[Inputs]:
        kind: type[Inputs] = get_type_hints(self.answer)["said"]
        return kind

    @property
    def gives(self) -> type[Document]:
        kind: type[Document] = get_type_hints(self.answer)["return"]
        return kind


TOOLS: Final[dict[str, Tool]] = {}
Answer = TypeVar("Answer", bound=Callable[[Places, Any], Document])


def tool(title: str, *pages: Way) -> Callable[[Answer], Answer]:
    """Register the function below as a tool of its own name."""

    def register(answer: Answer) -> Answer:
        name = answer.__name__
        TOOLS[name] = Tool(name=name, title=title, answer=answer, pages=pages)
        return answer

    return register


@tool("Servers")
def servers(places: Places, said: Inputs) -> ServersDocument:  # noqa: ARG001
    """List the PostgreSQL servers that the other tools can read, by name."""
    return ServersDocument(servers=sorted(places.servers), history=places.history is not None)


@tool("Check a server", ("servers", 0, "findings"))
def check(places: Places, said: CheckInputs) -> CheckDocument:
    """Find what is wrong with a PostgreSQL server now, the most urgent first: lock queues,
    connections, vacuum, replication, disk, indexes, sequences, settings. Each finding has its
    number, consequence and a command for a person to run. Checks that could not judge are in
    `unjudged`: they have not passed. Start here.
    """
    name, dsn = places.dsn(said.server)
    found = answers.check(
        dsn, skip=said.skip, history=places.recorded() if said.history else None,
        instance=name if said.history else None, **_machine(memory=said.memory),
    )  # fmt: skip
    return check_document([replace(found, target=name)])


def _machine(**given: Any) -> MachineInputs:
    """The inputs about a machine that were given."""
    said: Any = {name: value for name, value in given.items() if value is not None}
    machine: MachineInputs = said
    return machine


@tool("Advise settings", ("advice",))
def tune(places: Places, said: TuneInputs) -> TuneDocument:
    """Advise settings for a server, each with its reason and basis, within a memory budget. Values
    are configuration text with units; sizes in fields named bytes are bytes. A machine that is
    described needs no server, unless exactly one is configured: then that one is meant. Changes
    nothing.
    """
    machine = _machine(
        memory=said.memory, cpus=said.cpus, storage=said.storage, workload=said.workload
    )
    described = machine and said.server is None and len(places.servers) != 1
    return tune_document(answers.tune(None if described else places.dsn(said.server)[1], **machine))


@tool("Explain a parameter")
def explain(places: Places, said: ExplainInputs) -> ExplainDocument:  # noqa: ARG001
    """Explain a configuration parameter: what it does, how its value is chosen, from which source,
    at what risk, and its default in each version.
    """
    return explain_document(known_parameter(said.name, said.postgres))


@tool("Explain a check")
def explain_check(places: Places, said: ExplainCheckInputs) -> ChecksDocument:  # noqa: ARG001
    """Explain a check by the id of its finding: what it means, its threshold and the source."""
    known(frozenset([said.id]))
    return checks_document(said.id)


@tool("Vacuum of a database", ("tables",))
def vacuum(places: Places, said: OfServer) -> VacuumDocument:
    """Tell what autovacuum needs, table by table, whether it keeps up, how far wraparound is, and
    what holds back dead rows. Rates are per second.
    """
    return vacuum_document(answers.vacuum(places.dsn(said.server)[1]))


@tool("Plans under the advice", ("advice",))
def plans(places: Places, said: PlansInputs) -> TuneDocument:
    """Compare the plans of the most expensive statements now and with the advised settings.
    Statements are explained, never run, and shown without literals.
    """
    dsn = places.dsn(said.server)[1]
    tuning = answers.tune(dsn)
    changes = {item.name: item.value for item in tuning.changes}
    return tune_document(tuning, compare(dsn, said.statements, changes))


@tool("Hard limits reached")
def limits(places: Places, said: PeriodInputs) -> LimitsDocument:
    """Tell which hard limit of its host a recorded server reached, when and for how long. Needs a
    history, and the server, which is asked for its limits of today.
    """
    directory = places.recorded()
    name, dsn = places.dsn(said.instance)
    found = answers.limits(dsn or "local", history=directory, instance=name, since=said.since)
    return limits_document(found)


@tool("What happened", ("incidents",), ("changes",), ("gaps",))
def what_happened(places: Places, said: PeriodInputs) -> HistorySummary:
    """Summarise a recorded period: what went wrong (`incidents`), load by what sessions waited for,
    the slowest statements without literals, checkpoints, changes of settings, restarts. Load is in
    average active sessions. `not_looked_for` is unknown, not fine. Needs a history.
    """
    return answers.history(places.recorded(), instance=said.instance, since=said.since)


@tool("SQL on the history", ("rows",))
def history_query(places: Places, said: QueryInputs) -> HistoryRows:
    """Run one SELECT on the recorded history, in DuckDB's dialect; `history_views` lists what can
    be read. Nothing else can. Times are in UTC. It ends after ten seconds, and long texts are cut.
    """
    wanted = said.after + said.most + 1  # one more tells whether there is a next part
    return answers.query(said.sql, places.recorded(), part=Part(rows=wanted))


@tool("Views of the history", ("rows",))
def history_views(places: Places, said: ViewsInputs) -> HistoryRows:
    """List the views that `history_query` can read, or the columns of one, with their units."""
    return answers.history_views(said.view, places.recorded())


@tool("How long a client hangs")
def failover_predict(places: Places, said: FailoverInputs) -> PredictDocument:  # noqa: ARG001
    """Predict for how many seconds a client hangs in each of five cases when its server goes away,
    and which timer decides.
    """
    found = answers.failover(
        client=said.client, rtt=said.rtt, user_timeout=said.user_timeout,
        read_timeout=said.read_timeout,
    )  # fmt: skip
    return predict_document(found.situation, found.cases, found.between)


def paged(answer: Document, tool: Tool, after: int, most: int) -> tuple[dict[str, Any], int | None]:
    """Return the answer as plain data with the part asked for, and where the next part begins."""
    plain = as_builtins(answer)
    longest = 0
    for *way, last in tool.pages:
        holder: Any = plain
        for step in way:
            holder = holder[step]
        longest = max(longest, len(holder[last]))
        holder[last] = holder[last][after : after + most]
    return plain, after + most if longest > after + most else None


def tools_document() -> ToolsDocument:
    """Return what an agent is offered."""
    return ToolsDocument(
        tools=[
            OfferedTool(
                name=one.name, title=one.title, description=one.description,
                takes=schema(one.takes), gives=tag(one.gives),
            )
            for one in TOOLS.values()
        ]
    )  # fmt: skip
