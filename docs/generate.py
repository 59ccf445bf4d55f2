"""Write the pages and pictures that are made from the code: `python -m docs.generate`.

They are committed; a test fails when this would change one of them.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import click
from docs.generate_bench import containers_page, containers_picture, cpu_pictures, plan_picture
from docs.generate_classes import classes_page
from docs.generate_failover import lab_picture, measured_page, measured_picture
from docs.generate_frameworks import frameworks_page
from docs.generate_json import PACKAGES, json_page, schemas
from docs.generate_pods import before_after_pictures, pods_page
from docs.generate_searches import searches_page

from mrtuner import cli, errors, formats
from mrtuner.bench.report.charts import Effect, forest
from mrtuner.catalog import MAJORS, Parameter, history, parameters
from mrtuner.catalog.load import table
from mrtuner.catalog.platforms import platform
from mrtuner.checks.catalogue import checks
from mrtuner.documents import read
from mrtuner.formats import crunchy
from mrtuner.limits import limits
from mrtuner.limits import page as limits_page
from mrtuner.limits.examples.week import CLASS, STORAGE, simulated_week
from mrtuner.postgres.model import FOLLOW_PRIMARY
from mrtuner.present import charts
from mrtuner.present.figures import stand_alone
from mrtuner.rehearsal import page as rehearsal
from mrtuner.tuning import Tuning, tune
from mrtuner.tuning.verdict import RULES, Rule
from mrtuner.units import MiB
from mrtuner.vacuum import page as vacuum_page
from mrtuner.wording import enumerated
from mrtuner_pods import formats as application
from rdstune.cli import rdstune
from rdstune.fleet.document import RehearsalDocument

DOCS: Final = Path(__file__).resolve().parent
HEAD: Final = "<!-- Made from the code by `python -m docs.generate`: do not edit. -->\n\n"
GIB: Final = 1024**3
WIDTH: Final = 96

#: The machine of the README.
EXAMPLE: Final[dict[str, Any]] = {
    "memory": "16GB",
    "cpus": 4,
    "storage": "ssd",
    "workload": "oltp",
    "connections": 200,
    "postgres": 18,
}


def main() -> None:
    """Write every file that differs."""
    for path, text in files().items():
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


def files() -> dict[Path, str]:
    """Every generated file with its text."""
    return pages() | pictures()


def pages() -> dict[Path, str]:
    """The generated pages."""
    made = {
        "reference/parameters-and-rules.md": rules_page(),
        "reference/checks.md": checks_page(),
        "reference/cli.md": cli_page(),
        "reference/formats.md": formats_page(),
        "reference/errors.md": errors_page(),
        "reference/json.md": json_page(),
        "reference/catalog.md": catalog_page(),
        "reference/instance-classes.md": classes_page(),
        "reference/failover-measured.md": measured_page(),
        "reference/containers-measured.md": containers_page(),
        "reference/searches.md": searches_page(),
        "reference/framework-pools.md": frameworks_page(),
        "reference/pods-measured.md": pods_page(),
        "comparison.md": comparison_page(),
    }
    texts = {name: HEAD + "\n".join(lines).rstrip() + "\n" for name, lines in made.items()}
    texts |= {f"reference/schemas/{name}": text for name, text in schemas().items()}
    return {DOCS / name: text for name, text in texts.items()}


def pictures() -> dict[Path, str]:
    """The generated pictures: those of the README in light and dark, all others in light only."""
    budget, demo = budget_picture(), demo_picture()
    drawn = {
        "demo-light": stand_alone(demo, "light"),
        "demo-dark": stand_alone(demo, "dark"),
        "budget-light": stand_alone(budget, "light"),
        "budget-dark": stand_alone(budget, "dark"),
        "rehearsal": stand_alone(rehearsal_picture(), "light"),
        "limits": stand_alone(limits_picture(), "light"),
        "vacuum": stand_alone(vacuum_picture(), "light"),
        "failover-grid": stand_alone(measured_picture(), "light"),
        "failover-lab": stand_alone(lab_picture(), "light"),
        "containers": stand_alone(containers_picture(), "light"),
        "pods-plan": stand_alone(plan_picture(), "light"),
    }
    several = cpu_pictures() | before_after_pictures()
    drawn |= {name: stand_alone(picture, "light") for name, picture in several.items()}
    return {DOCS / "images" / f"{name}.svg": text for name, text in drawn.items()}


def budget_picture() -> str:
    """The budget of the README's machine."""
    budget = tune(**EXAMPLE).budget
    assert budget is not None  # noqa: S101 - the machine has a memory
    parts = [(part.name, part.size) for part in budget.parts]
    return charts.budget(parts, ceiling=budget.ceiling, memory=budget.memory, key="budget")


def demo_picture() -> str:
    """The loads of one demo; docs/demo.json is `loads` of its report.json."""
    loads = json.loads((DOCS / "demo.json").read_text(encoding="utf-8"))
    effects = [
        Effect(
            name=load["title"], ratio=seen["ratio"], low=seen["interval"][0],
            high=seen["interval"][1],
            decided=load["measure"] == "throughput" and load["verdict"] != "undecided",
        )
        for load in loads
        if (seen := load["throughput"]) is not None
    ]  # fmt: skip
    return forest(effects, delta=0.03, key="demo")


def rehearsal_picture() -> str:
    """The time line of a rehearsal in the lab; docs/rehearsal.json is what it measured."""
    run = read((DOCS / "rehearsal.json").read_text(encoding="utf-8"), RehearsalDocument).runs[0]
    window = (-run.asked, run.observation.seconds - run.asked)
    return rehearsal.timeline(run, window, key="rehearsal")


def limits_picture() -> str:
    """The week of the field notes, simulated, with its ceilings as lines."""
    return limits_page.picture(limits(simulated_week(), class_name=CLASS, storage=STORAGE))


def vacuum_picture() -> str:
    """Dead rows under the defaults and our settings; docs/vacuum.json is what was measured."""
    experiment = json.loads((DOCS / "vacuum.json").read_text(encoding="utf-8"))
    at = experiment["at"]
    panels = [
        vacuum_page.Panel(
            f"{one['name']}: {one['kind']}, {one['rows']:,} rows, "
            f"{one['dead_a_second']:,} of them die per second",
            vacuum_page.DeadRowsLine("defaults", at, one["series"]["defaults"]),
            vacuum_page.DeadRowsLine("as advised", at, one["series"]["ours"]),
        )
        for one in experiment["tables"]
    ]
    return vacuum_page.picture(panels, key="vacuum")


# Rules


def rules_page() -> Iterator[str]:
    """Every rule with its provenance, by area."""
    yield "# Parameters and rules"
    yield ""
    yield f"MrTuner has rules for {len(RULES)} parameters; every other one is left alone."
    yield "How a value is chosen, on what ground ([basis](../concepts/verdicts.md)), from which"
    yield "source and at what risk: the same that `mrtuner explain NAME` says."
    for area, rules in groupby(RULES.values(), key=lambda rule: rule.area):
        yield f"\n## {area.capitalize() if area.isalpha() else f'`{area}`'}"
        for rule in rules:
            yield from rule_section(rule)


def rule_section(rule: Rule) -> Iterator[str]:
    """One rule."""
    known = {
        major: parameters(major)[rule.name] for major in MAJORS if rule.name in parameters(major)
    }
    newest = known[max(known)]
    yield f"\n### `{rule.name}`"
    yield ""
    if newest.summary:
        yield f"{newest.summary}\n"
    yield f"{prose(rule.method)}\n"
    yield f"- Basis: {rule.basis}{'; a suggestion, never applied' * rule.suggestion}"
    yield f"- Source: {prose(rule.source)}"
    yield f"- Risk: {prose(rule.risk)}"
    yield f"- Takes effect: {'after a restart' if newest.restart else 'after a reload'}"
    yield f"- Versions: {span(known)}; default {defaults(known)}"
    for sentence in history(rule.name):
        yield f"- In {prose(sentence)}"


def prose(text: str) -> str:
    """A text as Markdown: parameter names as code, asterisks escaped."""
    return re.sub(r"(?<![`\w])((?:\w+_)+\w+(?:\.\w+)*)(?![`\w])", r"`\1`", text).replace("*", r"\*")


def span(majors: Iterable[int]) -> str:
    """The first and the last of these majors: 13 to 19."""
    first, *rest = sorted(majors)
    return f"{first} to {rest[-1]}" if rest else str(first)


def defaults(known: dict[int, Parameter]) -> str:
    """The default of each run of versions that share it."""
    runs = groupby(known, key=lambda major: shown_default(known[major]))
    texts = [(list(majors), text) for text, majors in runs]
    if len(texts) == 1:
        return texts[0][1]
    return ", ".join(f"{text} ({span(majors)})" for majors, text in texts)


def shown_default(parameter: Parameter) -> str:
    """The default as a person writes it."""
    if parameter.default is None:
        return "set by the server, by initdb or by the build"
    return f"`{parameter.show(parameter.default)}`" if parameter.default != "" else "empty"


# Commands


def cli_page() -> Iterator[str]:
    """Every command with its help, as `--help` prints it."""
    yield "# Commands"
    yield ""
    yield "What `--help` prints. Data go to stdout, talk and progress to stderr. Exit codes and"
    yield "errors: [errors](errors.md); documents of `--json`: [JSON](json.md)."
    yield ""
    yield (DOCS / "cli.in").read_text(encoding="utf-8").rstrip()
    for group in (cli.main, rdstune):
        context = context_of(group, str(group.name))
        yield from help_section("##", context)
        yield from commands_of(group, context)


def commands_of(group: click.Group, context: click.Context) -> Iterator[str]:
    """The help of a group's commands and of their subcommands, except hidden ones."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None  # noqa: S101 - it was listed
        if command.hidden:
            continue
        inner = context_of(command, name, context)
        yield from help_section("###", inner)
        if isinstance(command, click.Group) and command is not rdstune:
            yield from commands_of(command, inner)
        for verb, its in getattr(command, "verbs", {}).items():
            yield from help_section("###", context_of(its, f"{name} {verb}", context))


def context_of(
    command: click.Command, name: str, parent: click.Context | None = None
) -> click.Context:
    """The context that click would create for a command called by this name."""
    return click.Context(
        command, parent, info_name=name, terminal_width=WIDTH, **command.context_settings
    )


def help_section(mark: str, context: click.Context) -> Iterator[str]:
    """One command's help in a block."""
    yield f"\n{mark} {context.command_path}"
    yield ""
    yield "```text"
    yield "\n".join(line.rstrip() for line in context.get_help().splitlines())
    yield "```"


# Formats


def formats_page() -> Iterator[str]:
    """Every format, with three settings written in it."""
    lines = tune(**EXAMPLE).lines()[:3]
    yield "# Formats"
    yield ""
    yield "`mrtuner tune … --format NAME` and `advice.as_(NAME)` write the changes in one of these."
    yield "Each reads back what it wrote (`mrtuner.formats.parse`), which the tests check for every"
    yield "parameter and for many nasty texts. A parameter that an operator owns, or that a managed"
    yield "server refuses, is left out and named in a comment. `text` is the screen; `json` is"
    yield "described in [JSON](json.md)."
    yield ""
    yield from standbys_first()
    for name in formats.NAMES:
        form = formats.known_format(name)
        summary, module = form.summary, inspect.getmodule(form.write)
        yield f"\n## `{name}`"
        yield ""
        yield f"{summary[0].upper()}{summary[1:].rstrip('.')}."
        yield ""
        yield f"```{_LANGUAGES.get(name, 'yaml')}"
        yield formats.render(name, lines, title="three settings of an example").rstrip()
        yield "```"
        yield from owned(module)
        yield from on_platform(module)
    yield from application_formats()


def standbys_first() -> Iterator[str]:
    """Which formats name the order of a primary and its standbys, and which need not."""
    free = [f"`{name}`" for name in formats.NAMES if not formats.known_format(name).orders_standbys]
    yield f"{enumerated(sorted(f'`{name}`' for name in FOLLOW_PRIMARY))}"
    yield "must not be lower on a standby than on its primary, or replay pauses there."
    yield f"{enumerated(free)} say so when one of them"
    yield "is written: nobody orders the servers there. The other platforms do that themselves."


def application_formats() -> Iterator[str]:
    """The formats of `mrtuner pods plan`, for one plan."""
    yield ""
    yield "## Application servers"
    yield ""
    yield "`mrtuner pods plan --format` writes a plan for the tools that run it"
    yield "([how to](../how-to/plan-pods.md))."
    for name, summary in application.FORMATS.items():
        server = name if name in {"gunicorn", "unicorn"} else "puma"
        yield ""
        yield f"### `{name}`"
        yield ""
        yield f"Writes {summary}."
        yield ""
        yield f"```{_APPLICATION_LANGUAGES.get(name, 'python')}"
        yield application.render(name, replace(APPLICATION, server=server)).rstrip()
        yield "```"


APPLICATION: Final = application.Application(
    title="for 400/s of 27 ms; 95 % wait at most 17 ms", server="puma", pods=5, workers=2,
    threads=3, pool=3, cpu_request=0.9, cpu_limit=1.25,
    cpu_because="the least with which stops add little", memory=500 * MiB, clients=60,
    server_connections=9,
)  # fmt: skip
_APPLICATION_LANGUAGES: Final = {
    "kubernetes": "yaml", "puma": "ruby", "unicorn": "ruby", "pgbouncer": "ini",
    "hikaricp": "properties",
}  # fmt: skip


_LANGUAGES: Final = {
    "conf": "ini", "sql": "sql", "markdown": "text", "nixos": "nix",
    "cloudsql": "sh", "cloudsql-terraform": "terraform",
    "azure": "sh", "azure-terraform": "terraform",
}  # fmt: skip


def owned(module: Any) -> Iterator[str]:
    """The parameters that a format leaves out because they are set elsewhere."""
    names = sorted(getattr(module, "OWNED", ()))
    if not names:
        return
    families = [f"{prefix}*" for prefix in crunchy.OWNED_FAMILIES] if module is crunchy else []
    yield ""
    yield (
        "Left out, because they are set elsewhere: "
        + ", ".join(f"`{name}`" for name in names + families)
        + "."
    )


def on_platform(module: Any) -> Iterator[str]:
    """What is known of a managed platform, and the parameters with rules that it refuses."""
    if not hasattr(module, "PLATFORM"):
        return
    known = platform(module.PLATFORM)
    listed = {name: known.parameters[name] for name in RULES if name in known.parameters}
    fixed = [name for name, of in listed.items() if not of.modifiable]
    missing = [name for name in RULES if name not in listed]
    yield ""
    yield f"{len(known.parameters)} parameters are known, as of {known.seen}. Source:"
    yield f"{prose(known.source)}."
    for words, names in (("Set by the platform", fixed), ("Not on that list", missing)):
        if names:
            yield f"{words}: {code_list(names)}."


# Errors


def checks_page() -> Iterator[str]:
    """Every check of `mrtuner check`, by area."""
    yield "# Checks"
    yield ""
    yield "What [`mrtuner check`](../how-to/check-a-server.md) looks for. `mrtuner explain ID` says"
    yield "the same. A check that could not read what it needs is *not judged*: it never passes."
    yield from ("", "## The order", "")
    yield "Findings are in the order of their severity. Those of one severity are in the order of"
    yield "the time to their harm; a time that is not known is taken as a week. Of equal times, the"
    yield "larger `cost` is first. It is a share from 0 to 1, so that all kinds compare: 1 is all"
    yield "of what can be lost or used up, of the memory, the volume, the connections, the load,"
    yield "the rows or the numbers. A share that is not known counts as half."
    for area, found in groupby(checks().values(), key=lambda one: one.area):
        yield f"\n## {area.capitalize()}"
        for one in found:
            yield from ("", f"### {one.id}", "", one.meaning, "")
            yield f"Judged: {one.judged}. Source: {one.source}. Remedy: {one.remedy}"


def errors_page() -> Iterator[str]:
    """The meaning of every exit code, then every class of error with its exit code."""
    yield "# Errors and exit codes"
    yield ""
    yield "An error is two lines on stderr, `error: …` and `HINT: …`, and an exit code. The hint"
    yield "names the next step. No error carries a password. `--debug` adds a traceback."
    yield ""
    yield "| Exit code | Meaning |"
    yield "|--:|:--|"
    for code, meaning in EXIT_CODES.items():
        yield f"| {code} | {meaning} |"
    yield ""
    yield "In Python every error on purpose is a `mrtuner.errors.MrTunerError` with `message`,"
    yield "`hint` and `exit_code`; `AwsError` also has `code` as AWS gives it and `action` as IAM"
    yield "names it."
    for kind in error_classes():
        base = kind.__base__
        yield f"\n## `{kind.__name__}`"
        yield ""
        yield f"{inspect.getdoc(kind)}"
        yield ""
        below = (
            f" A kind of `{base.__name__}`."
            if base and issubclass(base, errors.MrTunerError)
            else ""
        )
        home = "" if kind.__module__ == errors.__name__ else f" In `{kind.__module__}`."
        yield f"Exit code {kind.exit_code}.{below}{home}"


EXIT_CODES: Final = {
    0: "done; of a check: nothing to do",
    1: "failed",
    2: "usage: the command or call was given something it cannot use",
    3: "a check (`--check`, `mrtuner check` or `mrtuner pods check`; no other command ends with "
    "it) found something to do, or [could not judge "
    "everything](../concepts/verdicts.md#what-was-not-judged)",
    4: "refused: possible, but not safe",
    5: "measured worse",
    6: "unfinished: it waits for others, or the server ended a watch; run it again",
    130: "interrupted",
}


def error_classes() -> list[type[errors.MrTunerError]]:
    """The classes of `errors.py` in their order, then those of other modules."""
    for package in PACKAGES:
        path = importlib.import_module(package).__path__
        for module in pkgutil.walk_packages(path, f"{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    found = list(kinds(errors.MrTunerError))
    ground = [kind for kind in vars(errors).values() if kind in found]
    rest = [kind for kind in found if kind not in ground]
    return [*ground, *sorted(rest, key=lambda kind: (kind.__module__, kind.__qualname__))]


def kinds(base: type[errors.MrTunerError]) -> Iterator[type[errors.MrTunerError]]:
    """A class of errors and all our classes derived from it."""
    yield base
    for kind in base.__subclasses__():
        if kind.__module__.partition(".")[0] in PACKAGES:
            yield from kinds(kind)


# Catalogue


def catalog_page() -> Iterator[str]:
    """What is known of each major."""
    majors = table("parameters.json")["majors"]
    yield "# Parameter catalogue"
    yield ""
    yield "Names, types, units, bounds, values, contexts and defaults come from `pg_settings` of"
    yield "running servers (`make catalog`); a test compares them with those servers again. 19 is a"
    yield "release candidate; its differences have [a page](../concepts/postgresql-19.md). Where a"
    yield "live server is read, its own word counts, not this catalogue."
    yield ""
    yield "| Major | Parameters | Read from | New | Gone |"
    yield "|--:|--:|:--|:--|:--|"
    before: frozenset[str] | None = None
    for major in MAJORS:
        names = frozenset(parameters(major))
        new = "" if before is None else code_list(names - before)
        gone = "" if before is None else code_list(before - names)
        version = majors[str(major)]["version"]
        yield f"| {major} | {len(names)} | {version} | {new} | {gone} |"
        before = names
    yield from builds()


def code_list(names: Iterable[str]) -> str:
    """Names in order, as code."""
    return ", ".join(f"`{name}`" for name in sorted(names))


def builds() -> Iterator[str]:
    """Values that a build or a platform may lack."""
    yield "\n## Values that a build may lack"
    yield ""
    yield "They are advised only where a running server lists them."
    yield ""
    yield "| Parameter | Since | May be missing | Source |"
    yield "|:--|--:|:--|:--|"
    for name, entry in table("builds.json").items():
        if name != "//":
            lacking = ", ".join(f"`{value}`" for value in entry["build"])
            since = max(entry["since"], MAJORS[0])
            yield f"| `{name}` | {since} | {lacking} | {prose(entry['source'])} |"


# Comparison


#: The machines of the survey, and what other tools advised for them, after our own 0.1:
#: work_mem, max_wal_size, worst case.
SHAPES: Final[tuple[tuple[str, dict[str, Any], tuple[str, ...]], ...]] = (
    (
        "4 GB, 2 CPUs, 100 connections, web, 17",
        {"memory": "4GB", "cpus": 2, "connections": 100, "workload": "web", "postgres": 17},
        ("9 MB, 8 GB, 74 %", "9.5 MB, 4 GB, 90 %", "16 MB, 1 GB, 228 %", "10 MB, 3 GB, 89 %"),
    ),
    (
        "4 GB, 2 CPUs, 500 connections, web, 17",
        {"memory": "4GB", "cpus": 2, "connections": 500, "workload": "web", "postgres": 17},
        ("768 kB, 8 GB, 48 %", "4 MB, 4 GB, 141 %", "3.2 MB, 1 GB, 228 %", "2 MB, 3 GB, 89 %"),
    ),
    (
        "16 GB, 4 CPUs, 100 connections, web, 17",
        {"memory": "16GB", "cpus": 4, "connections": 100, "workload": "web", "postgres": 17},
        ("40 MB, 8 GB, 79 %", "39 MB, 4 GB, 92 %", "32 MB, 1 GB, 189 %", "41 MB, 3 GB, 90 %"),
    ),
    (
        "32 GB, 8 CPUs, 200 connections, oltp, 18",
        {"memory": "32GB", "cpus": 8, "connections": 200, "workload": "oltp", "postgres": 18},
        ("44 MB, 16 GB, 81 %", "39 MB, 8 GB, 92 %", "16 MB, 1 GB, 107 %", "57 MB, 3 GB, 113 %"),
    ),
    (
        "256 GB, 64 CPUs, 500 connections, oltp, 18",
        {"memory": "256GB", "cpus": 64, "connections": 500, "workload": "oltp", "postgres": 18},
        ("145 MB, 64 GB, 81 %", "105 MB, 8 GB, 69 %", "6.4 MB, 1 GB, 35 %", "184 MB, 3 GB, 110 %"),
    ),
    (
        "256 GB, 64 CPUs, 40 connections, olap, 18",
        {"memory": "256GB", "cpus": 64, "connections": 40, "workload": "olap", "postgres": 18},
        ("389 MB, 64 GB, 38 %", "284 MB, 16 GB, 38 %", "80 MB, 1 GB, 35 %", "3 GB, 3 GB, 134 %"),
    ),
)


def comparison_page() -> Iterator[str]:
    """The hand-written page around the table of six machines."""
    template = (DOCS / "comparison.in").read_text(encoding="utf-8")
    yield template.replace("@TABLE@", "\n".join(comparison_table()))


def comparison_table() -> Iterator[str]:
    """The six machines: our advice, now and in 0.1, beside that of other tools."""
    names = "MrTuner 0.1 | PgTune | timescaledb-tune | pgconfig"
    yield f"| Machine | MrTuner | its own budget | {names} |"
    yield "|:--|:--|--:|:--|:--|:--|:--|"
    for name, machine, others in SHAPES:
        tuning = tune(storage="ssd", **machine)
        assert tuning.budget is not None  # noqa: S101 - the machine has a memory
        own = share(tuning.budget.total, tuning.budget.memory)
        cells = (ours(tuning), own, *others)
        yield f"| {name} | {' | '.join(map(unbroken, cells))} |"


def ours(tuning: Tuning) -> str:
    """work_mem, max_wal_size, and the worst case by the survey's formula."""
    work_mem, max_wal = spaced(tuning["work_mem"].value), spaced(tuning["max_wal_size"].value)
    budget = tuning.budget
    assert budget is not None  # noqa: S101 - the machine has a memory
    worst = share(survey_worst_case(tuning), budget.memory)
    return f"{work_mem}, {max_wal}, {worst}"


def survey_worst_case(tuning: Tuning) -> int:
    """shared_buffers, a hash per connection and autovacuum_work_mem per worker, summed [bytes]."""

    def size(name: str) -> int:
        target = tuning[name].target
        return 0 if target is None else int(tuning[name].parameter.size(target) or 0)

    connections, workers = (
        int(tuning[name].value) for name in ("max_connections", "autovacuum_max_workers")
    )
    sorts = int(connections * size("work_mem") * float(tuning["hash_mem_multiplier"].value))
    return size("shared_buffers") + sorts + workers * size("autovacuum_work_mem")


def share(part: int, whole: int) -> str:
    """A part in percent: 84 %."""
    return f"{part / whole:.0%}".replace("%", " %")


def spaced(text: str) -> str:
    """`16GB` as a table of the survey writes it: 16 GB."""
    return re.sub(r"(\d)([a-zA-Z])", r"\1 \2", text)


def unbroken(cell: str) -> str:
    """The figures of a cell, each kept on one line."""
    return ", ".join(figure.replace(" ", "\N{NO-BREAK SPACE}") for figure in cell.split(", "))


if __name__ == "__main__":
    main()
