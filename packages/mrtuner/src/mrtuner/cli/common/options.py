"""Options that several commands share, and the kinds of values they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from mrtuner.cli.common.commands import CliCommand
from mrtuner.cli.common.terminal import confirm, print_note
from mrtuner.errors import UsageError
from mrtuner.inputs import MACHINE, PLANS, Choice, Input, Share, Switch, Time

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mrtuner.change.journal import Journal

Function = TypeVar("Function", bound=Callable[..., Any])

#: The longest time that a command may be told to wait or to watch [s]: a week.
_LONGEST: Final = 7 * 86_400.0


class Declared(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A value as `mrtuner.inputs` declares it; a bad one is refused with the library's message."""

    def __init__(self, flag: str, declared: Input) -> None:
        self.flag, self.declared = flag, declared
        self.name = declared.metavar

    def convert(
        self, value: Any, _param: click.Parameter | None, _ctx: click.Context | None
    ) -> Any:
        """Return the value as the rules use it."""
        if isinstance(value, str):
            value = self.declared.parse(self.flag, value)
        return self.declared.check(self.flag, value)

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the words of a choice that begin like this."""
        from click.shell_completion import CompletionItem  # only while completing

        words = self.declared.words if isinstance(self.declared, Choice) else ()
        return [CompletionItem(str(word)) for word in words if word.startswith(incomplete)]


def stacked(*options: Callable[[Function], Function]) -> Callable[[Function], Function]:
    """Several options as one decorator, listed by --help in this order."""

    def decorate(function: Function) -> Function:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def gathered(
    argument: str, kind: Callable[..., Any], **options: Callable[[Any], Any]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Several options that the command gets as one `argument`: a `kind`, made from them by name."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def run(*args: Any, **given: Any) -> Any:
            chosen = {name: given.pop(name) for name in options}
            return function(*args, **given, **{argument: kind(**chosen)})

        decorated: Callable[..., Any] = stacked(*options.values())(run)
        return decorated

    return decorate


def declared_option(
    argument: str, name: str | None = None, **more: Any
) -> Callable[[Function], Function]:
    """The option for a machine input; `name` is the function's argument if it differs."""
    return input_option(argument, MACHINE[argument], name, **more)


def input_option(
    argument: str, declared: Input, name: str | None = None, **more: Any
) -> Callable[[Function], Function]:
    """The option for an input that is declared elsewhere; otherwise like `declared_option`."""
    flag = f"--{declared.flag or argument.replace('_', '-')}"
    if isinstance(declared, Switch):
        kind: dict[str, Any] = {"is_flag": True, "default": None}
    else:
        kind = {"type": Declared(flag, declared), "metavar": declared.metavar}
    return click.option(flag, name or argument, **kind, **({"help": _help(declared)} | more))


def time_option(
    flag: str, text: str, *, name: str | None = None, most: float = _LONGEST, **more: Any
) -> Callable[[Function], Function]:
    """The option for a length of time of at most `most` seconds; `text` is its help."""
    return _typed_option(flag, Time(help=text, most=most), name, more)


def path_option(
    flag: str,
    metavar: str,
    text: str,
    *,
    name: str | None = None,
    exists: bool = False,
    **more: Any,
) -> Callable[[Function], Function]:
    """The option for a path, of a FILE or a DIR, as `metavar` says; `text` is its help."""
    of_directory = metavar == "DIR"
    kind = click.Path(
        path_type=Path, file_okay=not of_directory, dir_okay=of_directory, exists=exists
    )
    return click.option(*filter(None, (flag, name)), type=kind, metavar=metavar, help=text, **more)


def history_options(text: str) -> Callable[[Function], Function]:
    """--history DIR, whose help is `text`, and --instance NAME."""
    return stacked(
        path_option("--history", "DIR", text),
        click.option(
            "--instance", metavar="NAME",
            help="Name of the server in the history.  [default: the only one]",
        ),
    )  # fmt: skip


def share_option(flag: str, text: str, **more: Any) -> Callable[[Function], Function]:
    """The option for a share from 0 to 1; `text` is its help."""
    return _typed_option(flag, Share(help=text, least=0), None, more)


def _typed_option(
    flag: str, declared: Input, name: str | None, more: dict[str, Any]
) -> Callable[[Function], Function]:
    return click.option(
        *filter(None, (flag, name)), type=Declared(flag, declared), metavar=declared.metavar,
        help=declared.help, show_default="default" in more, **more,
    )  # fmt: skip


def _help(declared: Input) -> str:
    words = f": one of {', '.join(declared.words)}" if isinstance(declared, Choice) else ""
    default = f"  [default: {declared.default}]" if declared.default else ""
    return f"{declared.help}{words}.{default}"


#: What `mrtuner.tune` can be told about a machine; the names are its arguments.
machine_options = stacked(*(declared_option(argument) for argument in MACHINE))

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Write one JSON document to stdout."
)
plans_option = click.option(
    "--plans", type=click.IntRange(1, 1000), is_flag=False, flag_value=PLANS, metavar="[N]",
    help="Explain the N (20) most expensive statements, now and as advised; they are never run.",
)  # fmt: skip
output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE",
    help="Write to this file instead of stdout.",
)  # fmt: skip


def format_option(formats: Sequence[str], more: str = "") -> Callable[[Function], Function]:
    """The option --format; --json is short for one of its values."""
    return click.option(
        "--format", "form", type=click.Choice(formats), metavar="FORMAT",
        help=f"Output format: one of {', '.join(formats)}.{more}",
    )  # fmt: skip


def one_format(form: str | None, as_json: bool, default: str = "text") -> str:
    """The format that --format and --json select; UsageError if they conflict."""
    if as_json and form not in {None, "json"}:
        raise UsageError(f"--json and --format {form} cannot be used together", "Omit one of them.")
    return "json" if as_json else form or default


def html_option(help_text: str) -> Callable[[Function], Function]:
    """The option --html FILE of every command that writes a page."""
    return path_option("--html", "FILE", help_text)


yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
server_bin_option = path_option(
    "--server-bin", "DIR", "Use this PostgreSQL installation for the embedded server."
)
journal_option = path_option(
    "--journal", "DIR", "Keep the journal of changes here.  [default: the user's state directory]"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """How a command that makes a change, and can undo it, is to do so."""

    journal: Path | None
    yes: bool
    as_json: bool

    def book(self) -> Journal:
        from mrtuner.change.journal import Journal

        return Journal(self.journal)

    def confirm(self, question: str) -> None:
        confirm(question, yes=self.yes)


#: The options of a command that makes a change and can undo it; it gets them as `asked`.
change_options = gathered(
    "asked", Asked, journal=journal_option, yes=yes_option, as_json=json_option
)
every_option = time_option("--every", "Time between two probes of one kind.", default="0.2s")
steady_option = time_option(
    "--steady",
    "How long all probes must succeed before it begins, and before it counts as over.",
    default="5s",
)


def command(name: str) -> Callable[[Callable[..., Any]], CliCommand]:
    """Make a function a command; its docstring is the help, examples first."""
    return click.command(name, cls=CliCommand)


def warn_of_password(dsn: str | None) -> str | None:
    """Return the connection string; warn if it exposes a password to other users."""
    if dsn is not None:
        from mrtuner.postgres.connect import masked

        if masked(dsn) != dsn:
            print_note(
                "warning: the password on the command line can be read by every user of this "
                "machine: use PGPASSWORD or ~/.pgpass"
            )
    return dsn
