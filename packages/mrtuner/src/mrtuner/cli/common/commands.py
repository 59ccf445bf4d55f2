"""A group of commands that loads each one when it is called and reports errors in one way.

Errors go to stderr as ``error: message`` and ``HINT: sentence`` with the error's exit code; a
traceback is shown with ``--debug`` only.
"""
# ruff: noqa: ARG002 - click hands every hook more than it needs

from __future__ import annotations

import errno
import importlib
import keyword
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner import __version__, extensions
from mrtuner.cli.common import exit_codes
from mrtuner.cli.common.terminal import print_error
from mrtuner.errors import MrTunerError, interrupted

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

#: What click raises for a group without a command; before 8.2 it printed the help by itself.
NoCommand: Final[Any] = getattr(click.exceptions, "NoArgsIsHelpError", ())
_CONTEXT: Final = {"help_option_names": ["-h", "--help"]}
_DEBUG: Final = "mrtuner.debug"
#: Names less alike than this (difflib's ratio) are not suggested: --cpus for --bogus is 0.44.
_CLOSE: Final = 0.65
#: Wide enough that no first sentence of a help text is cut.
WIDEST: Final = 200


class CliCommand(click.Command):
    """A command that takes --debug like every other, and may have verbs.

    ``vacuum DSN`` calls the command itself, ``vacuum apply DSN`` its verb: no connection string
    is the name of a verb.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params.append(debug_option())
        self.verbs: dict[str, CliCommand] = {}

    def verb(self, name: str) -> Callable[[Callable[..., Any]], CliCommand]:
        """Make a function a verb of this command; its docstring is the help."""

        def added(function: Callable[..., Any]) -> CliCommand:
            self.verbs[name] = click.command(name, cls=CliCommand)(function)
            return self.verbs[name]

        return added

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """Return the command's context, or that of a verb called by its name."""
        if not args or args[0] not in self.verbs:
            return super().make_context(info_name, args, parent, **extra)
        verb, *rest = args
        return self.verbs[verb].make_context(f"{info_name} {verb}", rest, parent, **extra)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, and the verbs below them."""
        super().format_options(ctx, formatter)
        if self.verbs:
            with formatter.section("Commands"):
                formatter.write_dl(
                    [(name, verb.get_short_help_str(WIDEST)) for name, verb in self.verbs.items()]
                )


def offer_verbs(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Complete, in the shell, an argument in whose place a verb may stand."""
    verbs = ctx.command.verbs if isinstance(ctx.command, CliCommand) else {}
    return [name for name in verbs if name.startswith(incomplete)]


class Commands(click.Group):
    """A group of commands: NAME is the `command` in module NAME of `package` (- becomes _).

    `summaries` has a sentence for each command; the help shows them in `sections`, if there are
    any: by heading, the names in it. With `extensible`, the commands of other distributions
    are here as well (`mrtuner.extensions`).
    """

    def __init__(
        self,
        name: str,
        summaries: Mapping[str, str],
        sections: Mapping[str, str] | None = None,
        package: str = "mrtuner.cli",
        extensible: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            name, context_settings=dict(_CONTEXT), epilog=exit_codes.EXPLAINED, **kwargs
        )
        click.version_option(__version__, message="mrtuner %(version)s")(self)
        self.params.append(debug_option())
        self.summaries = summaries
        self.sections = sections or {"Commands": " ".join(summaries)}
        self.package = package
        self.extensible = extensible

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order in which they are used, not alphabetically."""
        return [*self.summaries, *self._brought()]

    def _brought(self) -> dict[str, EntryPoint]:
        """The commands that other distributions bring, by name."""
        return extensions.installed(extensions.COMMANDS) if self.extensible else {}

    def get_command(
        self,
        ctx: click.Context,
        cmd_name: str,
    ) -> click.Command | None:
        """Load the command's module; None for a name we do not have.

        Raises MissingPart for a command of ours whose distribution is not installed.
        """
        if cmd_name not in self.summaries:
            brought: click.Command | None = None
            if self.extensible:
                brought = extensions.load(extensions.COMMANDS, cmd_name)
            return brought
        name = cmd_name.replace("-", "_")
        module = f"{self.package}.{name}{'_' if keyword.iskeyword(name) else ''}"
        command: click.Command = importlib.import_module(module).command
        return command

    def format_commands(
        self,
        ctx: click.Context,
        formatter: click.HelpFormatter,
    ) -> None:
        """List the commands; of ours, none is loaded."""
        summaries = dict(self.summaries)
        for name, entry in self._brought().items():
            summaries[name] = entry.load().get_short_help_str(WIDEST)
        sections = {heading: names.split() for heading, names in self.sections.items()}
        known = {name for names in sections.values() for name in names}
        sections["Others"] = [name for name in summaries if name not in known]
        widest = max(map(len, summaries), default=0)
        formatter.write_paragraph()
        for heading, names in sections.items():
            rows = [(name.ljust(widest), summaries[name]) for name in names if name in summaries]
            if rows:
                formatter.write_heading(heading)
                with formatter.indentation():
                    formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Raise UsageError for an unknown command, and suggest the one that was probably meant."""
        name = next(iter(args), "-")
        own = name in self.summaries or name.startswith("-")
        if not own and self.get_command(ctx, name) is None:
            known = self.list_commands(ctx)
            raise click.UsageError(f"no command {name!r}{_suggestion(name, known)}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; turn what it raises into a message and an exit code."""
        try:
            return super().invoke(ctx)
        except MrTunerError as error:
            _trace(ctx)
            print_error(error.message, error.hint)
            ctx.exit(error.exit_code)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of our output has gone; click exits quietly
            if interrupted(error):
                raise KeyboardInterrupt from error
            _trace(ctx)
            what = f"{type(error).__name__}: {error}".rstrip(": ")
            print_error(f"unexpected {what}", "Run it again with --debug and report the output.")
            ctx.exit(1)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as a program: parse, call, exit."""
        prog_name = prog_name or self.name

        def run() -> Any:
            return super(Commands, self).main(
                args, prog_name, complete_var, standalone_mode=False, **extra
            )

        return sys.exit(_exit_code(run)) if standalone_mode else run()


def debug_option() -> click.Option:
    """The --debug of the group and of every command."""
    return click.Option(
        ["--debug"],
        is_flag=True,
        expose_value=False,
        callback=_remember,
        help="Show tracebacks of errors.",
    )


def _exit_code(run: Callable[[], Any]) -> int:
    try:
        code = run()
    except NoCommand as error:
        click.echo(error.ctx.get_help())
        return 0
    except click.NoSuchOption as error:
        options = error.ctx.command.get_params(error.ctx) if error.ctx else []
        known = [name for one in options for name in one.opts]
        print_error(f"no such option {error.option_name!r}{_suggestion(error.option_name, known)}",
                 _usage_hint(error))  # fmt: skip
        return error.exit_code
    except click.UsageError as error:
        print_error(_lowered(error.format_message()), _usage_hint(error))
        return error.exit_code
    except click.ClickException as error:
        print_error(_lowered(error.format_message()), None)
        return error.exit_code
    except click.Abort:
        return exit_codes.INTERRUPTED
    return code if isinstance(code, int) else 0


def _remember(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value:
        ctx.meta[_DEBUG] = True


def _trace(ctx: click.Context) -> None:
    if ctx.meta.get(_DEBUG):
        import traceback

        traceback.print_exc()


def _lowered(message: str) -> str:
    """click's sentence in our form: lower case, no full stop."""
    first, rest = message[:1], message[1:]
    return (first.lower() + rest).strip().removesuffix(".")


def _usage_hint(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx else "mrtuner"
    return f"Run {path} --help for examples and options."


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Suggest the most similar known name, ignoring dashes; empty if none is similar enough."""
    from difflib import get_close_matches

    by_letters = {one.lstrip("-"): one for one in known}
    close = get_close_matches(name.lstrip("-"), by_letters, n=1, cutoff=_CLOSE)
    return f", did you mean {by_letters[close[0]]!r}?" if close else ""
