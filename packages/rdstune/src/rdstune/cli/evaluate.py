"""`rdstune evaluate`: what a formula gives on a class, on a memory, on a running instance."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import click

from mrtuner.cli.common import check_option, options, terminal
from mrtuner.errors import UsageError
from mrtuner.facts import Missing
from mrtuner.wording import enumerated
from rdstune.cli import change

if TYPE_CHECKING:
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
@check_option.checks("the value is out of the parameter's range or makes no sense")
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
    check: check_option.Check,
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
    from mrtuner.catalog import parameter as named
    from mrtuner.catalog.families import LAST, family
    from rdstune.group.evaluate import evaluate

    major = major or LAST
    known = None if parameter is None else named(parameter, major)
    of = family(f"{engine}{major}") if known else None
    _exclusive({"--all-classes": all_classes or None, "--memory": memory, "--connect": dsn})
    for option, value in (("--class", class_name), ("--vcpus", vcpus)):
        _exclusive({"--all-classes": all_classes or None, option: value})
    if all_classes:
        machines = _every_class(engine, storage)
    else:
        options.warn_of_password(dsn)
        machines = [_machine(class_name, memory, dsn, engine, vcpus, storage)]
    found = [evaluate(formula, machine, parameter=known, family=of) for machine in machines]
    if as_json:
        from rdstune.group.document import evaluation_document

        terminal.document(
            evaluation_document(
                found[0], major if known else None, engine, found if all_classes else ()
            )
        )
    else:
        _print(found, everywhere=all_classes)
    unjudged = [] if known else [_NO_RANGE]
    check.conclude(found=any(each.problems for each in found), unjudged=unjudged)


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
    from mrtuner.units import parse_bytes
    from rdstune.group.evaluate import Machine

    cls = instance_class(class_name) if class_name else None
    estimate = class_memory(cls, engine) if cls else None
    vcpus = vcpus or (cls.vcpus if cls else None)
    if memory is not None:  # a bare number is bytes, as in DBInstanceClassMemory
        estimate = given(parse_bytes(int(memory) if memory.isdecimal() else memory))
    elif dsn is not None:
        estimate = of_instance(dsn, engine, vcpus=vcpus, within=estimate)
    if cls and not any(each.startswith(engine) for each in cls.engines):
        terminal.print_note(f"warning: {engine} does not run on {cls.name}")
    return Machine(
        memory=estimate, vcpus=vcpus, storage=_gib(storage), name=cls.name if cls else None
    )


def _every_class(engine: str, storage: int | None) -> list[Machine]:
    from mrtuner.catalog.classes import instance_classes
    from mrtuner.formula.class_memory import class_memory
    from rdstune.group.evaluate import Machine

    return [
        Machine(memory=class_memory(cls, engine), vcpus=cls.vcpus, storage=_gib(storage), name=name)
        for name, cls in instance_classes(engine).items()
    ]


def _gib(storage: int | None) -> Bytes | None:
    from mrtuner.units import Bytes, GiB

    return None if storage is None else Bytes(storage * GiB)


def _print(found: Sequence[Evaluation], *, everywhere: bool) -> None:
    from mrtuner.present.text import entries

    one = found[0]
    terminal.print_line(f"{one.formula} as {one.parameter}" if one.parameter else one.formula)
    if everywhere:
        _print_table(found)
    else:
        terminal.print_lines(entries(list(_entries(one)), terminal.look(sys.stdout)))


def _entries(found: Evaluation) -> Iterator[tuple[str, str]]:
    yield "value", _value(found)
    if found.low != found.high:
        sizes = ": {} to {}".format(*found.between) if found.between else ""
        yield "between", f"{found.low} and {found.high}{sizes}, depending on the memory"
    if found.machine.memory and ("Memory" in found.formula or found.problems):
        on = f", on {found.machine.name}" if found.machine.name else ""
        yield "memory", f"{found.machine.memory}{on}"
        if not found.machine.memory.given:
            yield "from", found.machine.memory.source
    for problem in found.problems:
        yield "problem", problem.text
        if problem.hint:
            yield "hint", problem.hint
    for note in found.notes:
        yield "note", note


def _value(found: Evaluation) -> str:
    if found.unit is None or found.pretty is None:
        return str(found.value)
    return f"{found.value}, in units of {found.unit}: {found.pretty}"


def _print_table(found: Sequence[Evaluation]) -> None:
    from mrtuner.text_tables import aligned

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
