"""Generated pages match the code, and leave nothing out."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import click
from docs_pages import DOCS, generator, name_of

from mrtuner import cli, errors
from mrtuner.catalog.classes import all_classes
from mrtuner.formats import NAMES
from mrtuner.inputs import MACHINE
from mrtuner.tuning.verdict import RULES
from rdstune.cli import rdstune

REFERENCE = DOCS / "reference"


def text_of(name: str) -> str:
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_generated_pages_are_up_to_date() -> None:
    stale = [
        name_of(path)
        for path, text in generator().pages().items()
        if path.read_text(encoding="utf-8") != text
    ]
    assert not stale, "run: make docs"


def test_the_pictures_show_the_numbers_of_today() -> None:
    """Their words and numbers, not every coordinate: those are the plotting library's."""
    for path, drawn in generator().pictures().items():
        assert words_in(path.read_text(encoding="utf-8")) == words_in(drawn), "run: make docs"


def words_in(svg: str) -> list[str]:
    return re.findall(r">([^<>]+)</(?:text|title|desc)>", svg)


def test_the_pictures_need_no_page_around_them() -> None:
    for path in (DOCS / "images").glob("*.svg"):
        assert "var(--" not in path.read_text(encoding="utf-8")


def test_every_rule_is_documented() -> None:
    import mrtuner

    mrtuner.tune(memory="1GB", cpus=1)  # registers them
    page = text_of("parameters-and-rules.md")
    assert len(RULES) > 40
    assert [name for name in RULES if f"### `{name}`" not in page] == []


def leaves(
    group: click.Group, path: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command]]:
    """Yield each command of a group with the words that call it; `mrtuner rds` counts as one."""
    context = click.Context(group, parent)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group) and command is not rdstune:
            yield from leaves(command, f"{path} {name}", context)
        if not command.hidden:
            yield f"{path} {name}", command
        for verb, its in getattr(command, "verbs", {}).items():
            yield f"{path} {name} {verb}", its


def test_only_what_is_told_to_check_ends_with_3() -> None:
    """Told by the option --check, or by being called check."""
    checking: dict[Path, bool] = {}
    for path, command in (*leaves(cli.main, "mrtuner"), *leaves(rdstune, "rdstune")):
        if command.callback is None:
            continue
        file = Path(inspect.getfile(inspect.unwrap(command.callback)))
        told = path.endswith(" check") or any("--check" in one.opts for one in command.params)
        checking[file] = checking.get(file, False) or told
    ends_with_3 = {file for file in checking if ".conclude(" in file.read_text("utf-8")}
    assert len(ends_with_3) > 10
    assert [file.name for file in ends_with_3 if not checking[file]] == []


def test_the_help_of_an_option_is_a_sentence_that_stands_alone() -> None:
    """No "Of the server.", no "The same.", no "Its unit.", no "likewise"."""
    leaning = [
        f"{path} {option.opts[-1]}: {text}"
        for path, command in (*leaves(cli.main, "mrtuner"), *leaves(rdstune, "rdstune"))
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden
        if (text := re.sub(r"\s+\[default: .*\]$", "", option.help or ""))
        if not text.endswith(".") or re.search(r"^(Of|The same|Its|Their) |\blikewise\b", text)
    ]
    assert leaning == []


def test_every_command_and_option_is_documented() -> None:
    page = text_of("cli.md")
    found = dict([*leaves(cli.main, "mrtuner"), *leaves(rdstune, "rdstune")])
    assert {"mrtuner tune", "rdstune lab", "rdstune maintenance rehearse"} <= set(found)
    for path, command in found.items():
        assert f"### {path}\n" in page
        section = page.split(f"### {path}\n")[1].split("\n##")[0]
        shown = [one for one in command.params if not getattr(one, "hidden", False)]
        flags = [flag for option in shown for flag in option.opts if flag.startswith("-")]
        assert [flag for flag in flags if flag not in section] == [], path


def test_every_error_is_documented() -> None:
    """Those in errors.py, and all their subclasses in the source."""
    page = text_of("errors.md")
    classes = {
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.MrTunerError)
    }
    assert len(classes) >= 8
    source = [
        path.read_text(encoding="utf-8") for path in DOCS.parent.glob("packages/*/src/**/*.py")
    ]
    for _ in range(3):  # subclasses of subclasses
        kinds = rf"^class (\w+)\((?:{'|'.join(classes)})\):"
        classes |= {name for text in source for name in re.findall(kinds, text, re.MULTILINE)}
    assert {"AwsError", "FormulaError", "DoesNotStart"} <= classes
    assert [name for name in classes if f"## `{name}`" not in page] == []


def test_every_instance_class_has_its_row() -> None:
    page = text_of("instance-classes.md")
    assert [name for name in all_classes() if page.count(f"\n| `{name}` |") != 1] == []
    # 64 GiB less 326 MiB and 3.62 %, ± 2 %; Aurora less 307 MiB and 2.54 %, not beyond the 64 GiB.
    assert (
        "| `db.r5.2xlarge` | 64 GB | 61.4 GB (60.1 GB to 62.6 GB) | 62.1 GB (60.8 GB to 64 GB) "
        "| 8 | 2,300 to 4,750 | 12,000 to 18,750 | RDS, Aurora |"
    ) in page


def test_every_format_is_documented() -> None:
    page = text_of("formats.md")
    assert [name for name in NAMES if f"## `{name}`" not in page] == []
    command = cli.main.get_command(click.Context(cli.main), "tune")
    assert command is not None
    option = next(option for option in command.params if "--format" in option.opts)
    assert isinstance(option.type, click.Choice)
    mentioned = page.split("## ")[0] + "".join(f"`{name}`" for name in NAMES)
    assert [name for name in option.type.choices if f"`{name}`" not in mentioned] == []


def test_every_format_stands_in_the_table_of_the_how_to() -> None:
    text = (DOCS / "how-to" / "write-for-other-tools.md").read_text(encoding="utf-8")
    of_our_own = {"conf", "sql", "markdown"}
    assert [name for name in NAMES if text.count(f"| `{name}` |") != (name not in of_our_own)] == []


def test_the_python_page_names_every_argument_of_tune() -> None:
    page = (DOCS / "how-to" / "use-from-python.md").read_text(encoding="utf-8")
    assert [name for name in MACHINE if f"`{name}`" not in page] == []


def test_the_makefile_writes_these_pages() -> None:
    makefile = Path(DOCS.parent / "Makefile").read_text(encoding="utf-8")
    assert "-m docs.generate" in makefile
