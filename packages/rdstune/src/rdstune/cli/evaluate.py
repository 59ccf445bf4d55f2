"""`rdstune evaluate`: what a formula gives on a class, on a memory, on a running instance."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import checks, options, terminal
from mrtuner.errors import UsageError
from mrtuner.facts import Missing
from mrtuner.wording import enumerated
from rdstune.cli import change

if TYPE_CHECKING:
    from mrtuner.catalog import Parameter
    from mrtuner.catalog.families import Family
    from mrtuner.units import Bytes
    from rdstune.group.evaluate import Evaluation, Machine

_ENGINES: Final = ("postgres", "aurora-postgresql")
_NO_RANGE: Final = Missing(
    "the parameter's range", "the formula's parameter is not named", "--parameter NAME"
)


@options.command("evaluate")
@click.argument("formula")
@click.option(
    "--parameter",
    metavar="NAME",
    help="Parameter that the formula is for: its unit, bounds and meaning.",
)
@click.option(
    "--class", "class_name", metavar="CLASS", help="Instance class, such as db.r6g.xlarge."
)
@click.option(
    "--memory",
    metavar="BYTES",
    help="Value of DBInstanceClassMemory, in bytes or as a size such as 15GB.",
)
@change.connect_option("to read its DBInstanceClassMemory")
@click.option("--all-classes", is_flag=True, help="Show a table of every class of the engine.")
@click.option("--vcpus", type=click.IntRange(1), metavar="N", help="Value of DBInstanceVCPU.")
@click.option(
    "--allocated-storage", "storage", type=click.IntRange(1), metavar="GIB",
    help="Value of AllocatedStorage, in GiB.",
)  # fmt: skip
@click.option(
    "--engine", type=click.Choice(_ENGINES), default="postgres", show_default=True,
    help="Engine whose classes and memory to use; Aurora reserves less.",
)  # fmt: skip
@click.option("--pg", "major", type=int, metavar="MAJOR", help="PostgreSQL version.  [default: 18]")
@checks.check_option("the value is out of the parameter's range or makes no sense")
@options.json_option
def command(
    formula: str,
    parameter: str | None,
    class_name: str | None,
    memory: str | None,
    dsn: str | None,
    all_classes: bool,
    vcpus: int | None,
    storage: int | None,
    engine: str,
    major: int | None,
    check: checks.Check,
    as_json: bool,
) -> None:
    """Evaluate a parameter group's formula: the number, its size, and whether it makes sense.

    \b
    Examples:
      rdstune evaluate '{DBInstanceClassMemory*75/819200}' \\
          --parameter effective_cache_size --class db.r5.2xlarge
      rdstune evaluate '{DBInstanceClassMemory/204800}' --parameter work_mem --memory 15GB
      rdstune evaluate 'GREATEST({DBInstanceVCPU*2},8)' --class db.r6g.xlarge
      rdstune evaluate '{DBInstanceClassMemory/32768}' --parameter shared_buffers --all-classes
      rdstune evaluate '{DBInstanceClassMemory/16384}' --connect postgresql://me@instance/app

    AWS does not publish DBInstanceClassMemory: for a class it is estimated, and the result is a
    range. --check exits with 3 if the value is out of the parameter's range or makes no sense.
    """
    major = major or _newest()
    known = _parameter(parameter, major)
    family = _family(engine, major) if known else None
    _exclusive({"--all-classes": all_classes or None, "--memory": memory, "--connect": dsn})
    for option, value in (("--class", class_name), ("--vcpus", vcpus)):
        _exclusive({"--all-classes": all_classes or None, option: value})
    if all_classes:
        found = _every_class(formula, known, family, engine, storage, as_json)
    else:
        machine = _machine(
            class_name, memory, options.warn_of_password(dsn), engine, vcpus, storage
        )
        found = [_one(formula, known, family, machine, engine, as_json)]
    unjudged = [] if known else [_NO_RANGE]
    check.conclude(found=any(each.problems for each in found), unjudged=unjudged)


def _newest() -> int:
    from mrtuner.catalog.families import LAST

    return LAST


def _parameter(name: str | None, major: int) -> Parameter | None:
    from mrtuner.catalog import parameter

    return None if name is None else parameter(name, major)


def _family(engine: str, major: int) -> Family:
    from mrtuner.catalog.families import family

    return family(f"{engine}{major}")


def _exclusive(given: Mapping[str, object]) -> None:
    named = [option for option, value in given.items() if value is not None]
    if len(named) > 1:
        raise UsageError(f"{enumerated(named)} cannot be used together", "Use one of them.")


def _machine(
    class_name: str | None,
    memory: str | None,
    dsn: str | None,
    engine: str,
    vcpus: int | None,
    storage: int | None,
) -> Machine:
    """The machine that the options describe; memory is given, else measured, else estimated."""
    from mrtuner.catalog.classes import instance_class
    from mrtuner.formula.class_memory import class_memory, given, of_instance
    from rdstune.group.evaluate import Machine

    cls = instance_class(class_name) if class_name else None
    estimate = class_memory(cls, engine) if cls else None
    vcpus = vcpus or (cls.vcpus if cls else None)
    if memory is not None:
        estimate = given(_bytes(memory))
    elif dsn is not None:
        estimate = of_instance(dsn, engine, vcpus=vcpus, within=estimate)
    if cls and not any(each.startswith(engine) for each in cls.engines):
        terminal.print_note(f"warning: {engine} does not run on {cls.name}")
    return Machine(
        memory=estimate, vcpus=vcpus, storage=_gib(storage), name=cls.name if cls else None
    )


def _bytes(text: str) -> Bytes:
    """A bare number is bytes here, as in DBInstanceClassMemory."""
    from mrtuner.units import parse_bytes

    return parse_bytes(int(text) if text.isdecimal() else text)


def _gib(storage: int | None) -> Bytes | None:
    from mrtuner.units import Bytes, GiB

    return None if storage is None else Bytes(storage * GiB)


def _one(
    formula: str,
    parameter: Parameter | None,
    family: Family | None,
    machine: Machine,
    engine: str,
    as_json: bool,
) -> Evaluation:
    from mrtuner.present.text import entries
    from rdstune.group.evaluate import evaluate

    found = evaluate(formula, machine, parameter=parameter, family=family)
    if as_json:
        from rdstune.group.document import evaluation_document

        major = parameter.major if parameter else None
        terminal.document(evaluation_document(found, major, engine))
    else:
        terminal.print_line(_title(found))
        terminal.print_lines(entries(list(_entries(found)), terminal.look(sys.stdout)))
    return found


def _every_class(
    formula: str,
    parameter: Parameter | None,
    family: Family | None,
    engine: str,
    storage: int | None,
    as_json: bool,
) -> list[Evaluation]:
    from mrtuner.catalog.classes import instance_classes
    from mrtuner.formula.class_memory import class_memory
    from rdstune.group.evaluate import Machine, evaluate

    found = []
    for name, cls in instance_classes(engine).items():
        memory = class_memory(cls, engine)
        machine = Machine(memory=memory, vcpus=cls.vcpus, storage=_gib(storage), name=name)
        found.append(evaluate(formula, machine, parameter=parameter, family=family))
    if as_json:
        from rdstune.group.document import evaluation_document

        major = parameter.major if parameter else None
        terminal.document(evaluation_document(found[0], major, engine, everywhere=found))
    else:
        terminal.print_line(_title(found[0]))
        _print_table(found)
    return found


def _title(found: Evaluation) -> str:
    return f"{found.formula} as {found.parameter}" if found.parameter else found.formula


def _entries(found: Evaluation) -> Iterator[tuple[str, str]]:
    yield "value", _value(found)
    if found.low != found.high:
        yield "between", f"{found.low} and {found.high}{_sizes(found)}, depending on the memory"
    if found.machine.memory and ("Memory" in found.formula or found.problems):
        yield "memory", f"{found.machine.memory}{_on(found.machine)}"
        if not found.machine.memory.given:
            yield "from", found.machine.memory.source
    for problem in found.problems:
        yield "problem", problem.text
        if problem.hint:
            yield "hint", problem.hint
    for note in found.notes:
        yield "note", note


def _sizes(found: Evaluation) -> str:
    return ": {} to {}".format(*found.between) if found.between else ""


def _on(machine: Machine) -> str:
    return f", on {machine.name}" if machine.name else ""


def _value(found: Evaluation) -> str:
    if found.unit is None or found.pretty is None:
        return str(found.value)
    return f"{found.value}, in units of {found.unit}: {found.pretty}"


def _print_table(found: list[Evaluation]) -> None:
    from mrtuner.tables import aligned

    head = ("class", "memory", "vCPUs", "value", "size", "from", "to", "problem")
    shown = len(head) if any(each.problems for each in found) else len(head) - 1
    rows = [head, *(_cells(each) for each in found)]
    terminal.print_lines(aligned([row[:shown] for row in rows], right=range(1, 7)))
    terminal.print_note("memory: estimated DBInstanceClassMemory; extrapolated above 32 GB")


def _cells(found: Evaluation) -> tuple[str, ...]:
    from mrtuner.units import pretty_bytes

    machine = found.machine
    return (
        machine.name or "",
        pretty_bytes(machine.memory.value) if machine.memory else "",
        str(machine.vcpus or ""),
        str(found.value),
        found.pretty or "",
        str(found.low),
        str(found.high),
        ", ".join(problem.code for problem in found.problems),
    )
