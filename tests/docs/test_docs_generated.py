"""Generated pages are what the code says now, and everything has its place in them."""

from __future__ import annotations

import re
from pathlib import Path

import click
from docs_pages import DOCS, generator, name_of

from mrtuner import cli, errors
from mrtuner.render import FORMATS
from mrtuner.tuning.verdict import RULES

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


def test_every_command_and_option_is_documented() -> None:
    page = text_of("cli.md")
    context = click.Context(cli.main)
    for name in cli.main.list_commands(context):
        assert f"### mrtuner {name}\n" in page
        section = page.split(f"### mrtuner {name}\n")[1].split("\n##")[0]
        command = cli.main.get_command(context, name)
        assert command is not None
        flags = [flag for option in command.params for flag in option.opts if flag.startswith("-")]
        assert [flag for flag in flags if flag not in section] == [], name


def test_every_error_is_documented() -> None:
    page = text_of("errors.md")
    classes = [
        name
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, errors.MrTunerError)
    ]
    assert len(classes) >= 8
    assert [name for name in classes if f"## `{name}`" not in page] == []


def test_every_format_is_documented() -> None:
    page = text_of("formats.md")
    assert [name for name in FORMATS if f"## `{name}`" not in page] == []
    command = cli.main.get_command(click.Context(cli.main), "tune")
    assert command is not None
    option = next(option for option in command.params if "--format" in option.opts)
    assert isinstance(option.type, click.Choice)
    mentioned = page.split("## ")[0] + "".join(f"`{name}`" for name in FORMATS)
    assert [name for name in option.type.choices if f"`{name}`" not in mentioned] == []


def test_the_how_to_on_operators_names_every_manifest() -> None:
    page = (DOCS / "how-to" / "write-for-patroni-and-operators.md").read_text(encoding="utf-8")
    assert [name for name in FORMATS if name not in {"conf", "sql", "markdown"}
            and f"| `{name}` |" not in page] == []  # fmt: skip


def test_the_python_page_names_every_argument_of_tune() -> None:
    import inspect

    import mrtuner

    page = (DOCS / "how-to" / "use-from-python.md").read_text(encoding="utf-8")
    arguments = [name for name in inspect.signature(mrtuner.tune).parameters if name != "dsn"]
    assert [name for name in arguments if f"`{name}`" not in page] == []


def test_the_makefile_writes_these_pages() -> None:
    makefile = Path(DOCS.parent / "Makefile").read_text(encoding="utf-8")
    assert "-m docs.generate" in makefile
