"""What apply, undo, prove and demo share: the way from advice to a change, and its messages."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import MrTunerError, Refused
from mrtuner.wording import plural

if TYPE_CHECKING:
    from mrtuner.change.journal import Journal
    from mrtuner.change.record import Change, Outcome
    from mrtuner.change.settings.apply import Restart, Standby, Wanted
    from mrtuner.change.transaction import StepName
    from mrtuner.search.model import Search

restart_option = click.option(
    "--restart",
    default="never",
    show_default=True,
    metavar="never|ask|COMMAND",
    help="How to restart: not at all, ask me for a command, or by this shell command.",
)


@dataclass(frozen=True, slots=True)
class Restarting:
    """How a change may restart servers."""

    restart: str = "never"  # or ask, or a shell command
    timeout: float | None = None  # [s]
    standbys: Sequence[tuple[str, str]] = ()  # and how each is restarted

    def consent(self, *, due: bool) -> Restart:
        """The restart that is allowed.

        With `ask`, the user is asked for the command if one is due; Refused without a terminal.
        """
        from mrtuner.change.settings.apply import NEVER, Restart

        if self.restart == "never" or (self.restart == "ask" and not due):
            return NEVER
        if self.restart != "ask":
            return Restart(run=self.restart, patience=self.timeout)
        if not terminal.is_interactive():
            raise Refused(
                "cannot ask about a restart: not a terminal",
                "Use --restart never or --restart 'COMMAND'.",
            )
        answer = click.prompt(
            "Command that restarts this server (empty: do not restart now)", default="", err=True,
            show_default=False,
        )  # fmt: skip
        return Restart(run=answer, patience=self.timeout) if answer.strip() else NEVER

    def of_standbys(self) -> tuple[Standby, ...]:
        """The standbys, each with its restart."""
        from mrtuner.change.settings.apply import Standby

        return tuple(
            Standby(dsn=dsn, restart=Restarting(how).consent(due=False))
            for dsn, how in self.standbys
        )

    def finish_interrupted(self, dsn: str, journal: Journal) -> Outcome | None:
        """Finish or revert what an interrupted run left half-done, and report it."""
        from mrtuner.change.settings.apply import finish_or_revert_settings

        outcome = finish_or_revert_settings(dsn, journal, restart=self.consent(due=False))
        print_recovered(outcome)
        if outcome is not None:
            _say_waiting(outcome.waiting)
        return outcome


#: A command gets them as one `restarting`.
restart_options = options.gathered(
    "restarting", Restarting,
    restart=restart_option,
    timeout=options.time_option(
        "--restart-timeout",
        "How long a restart may take.  [default: by the WAL to replay, at least 60s]",
        name="timeout",
    ),
    standbys=click.option(
        "--standby", "standbys", nargs=2, multiple=True, metavar="DSN never|COMMAND",
        help="A standby, and how to restart it: what must rise there first is raised there first.",
    ),
)  # fmt: skip


def way_back(done: Change, absent: str, more: Sequence[tuple[str, str]] = ()) -> Iterator[str]:
    """Yield what undoing a change restores, then `more` rows; `absent` is the word for no value."""
    from mrtuner.present.text import sections

    def shown(value: str | None) -> str:
        return absent if value is None else value or "empty"

    pairs = [(one.name, f"{shown(one.after)} becomes {shown(one.before)} again")
             for one in done.entries]  # fmt: skip
    title = f"change {done.id}, made {done.began}"
    yield from sections([(title, [*pairs, *more])], terminal.look(sys.stderr))


def wanted_in(path: Path) -> list[Wanted]:
    """The settings in a file that `mrtuner tune` wrote, or what `mrtuner search` found.

    `path` is a conf or JSON file, or the directory of a search.
    """
    from mrtuner.change.settings.apply import Wanted
    from mrtuner.formats import parse
    from mrtuner.search.record import file_of

    path = file_of(path)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise MrTunerError(
            f"cannot read {path}: {error}", "Name what mrtuner tune or mrtuner search wrote."
        ) from error
    values = _advised(text) if text.lstrip().startswith("{") else parse("conf", text)
    return [Wanted(name=name, value=value) for name, value in values.items()]


def _advised(text: str) -> dict[str, str]:
    from mrtuner.documents import convert, read
    from mrtuner.search.document import SearchDocument
    from mrtuner.search.model import Search
    from mrtuner.tuning.document import TuneDocument

    kinds: tuple[type[TuneDocument | SearchDocument], ...] = (TuneDocument, SearchDocument)
    found = read(text, *kinds)
    if isinstance(found, SearchDocument):
        return _found(convert(found, Search))
    return {
        item.name: item.value
        for item in found.advice
        if item.verdict == "change" and not item.suggestion
    }


def _found(search: Search) -> dict[str, str]:
    if search.result is None:
        raise Refused(
            "the search is not finished, so nothing is confirmed",
            "Continue it with mrtuner search --resume DIR.",
        )
    if not search.result.found:
        raise Refused(
            "the search found nothing better than the advice",
            "Apply the advice: leave out --from.",
        )
    return search.result.settings


def say_limit(dsn: str, how: Restart) -> None:
    """Print how long a restart may take before the old settings are put back."""
    from mrtuner.postgres.connect import connect
    from mrtuner.units import pretty_duration

    with connect(dsn) as connection:
        limit = how.limit(connection)
    terminal.print_note(
        f"the restart may take {pretty_duration(limit)} (--restart-timeout), then the old "
        "settings are put back"
    )


def print_recovered(outcome: Outcome | None) -> None:
    if outcome is not None:
        names = ", ".join(outcome.changed) or "nothing had taken effect yet"
        kind = "undo" if outcome.was_undo else "change"
        terminal.print_note(f"an interrupted {kind} was found and {outcome.result}: {names}")


def say(outcome: Outcome) -> None:
    if outcome.result == "nothing":
        terminal.print_line("nothing to change")
        return
    terminal.print_line(verified(outcome, "setting"))
    _say_waiting(outcome.waiting)
    if outcome.kept:
        terminal.print_note(outcome.kept)


def verified(outcome: Outcome, noun: str) -> str:
    """How many were changed: ``3 settings applied and verified``."""
    return f"{plural(len(outcome.changed), noun)} {outcome.result} and verified"


def _say_waiting(names: Sequence[str]) -> None:
    if names:
        terminal.print_note(f"takes effect at the next restart: {', '.join(names)}")


def observed(step: StepName) -> None:
    """Print the steps that matter to the user: reload, restart, verify and every step back."""
    named = step in {"reload", "restart", "verify"} or step.startswith("standby ")
    if not step.done and (step.reverting or named):
        terminal.print_note(f"  {step}")


def dsn_without_secrets(dsn: str) -> str:
    """The connection string to show in a command: as given, or without its secrets."""
    from mrtuner.postgres.connect import SECRETS, masked

    if masked(dsn) == dsn:
        return dsn
    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    known = conninfo_to_dict(dsn).items()
    return make_conninfo("", **{name: text for name, text in known if name not in SECRETS})


def undo_command(dsn: str, restart: str, journal: Path | None, *, proof: bool = False) -> str:
    """The command that undoes a change, or removes what a proof left; without passwords."""
    words = ["mrtuner", "undo", dsn_without_secrets(dsn), *(["--proof"] if proof else [])]
    return command_line(words, journal, restart=None if restart == "never" else restart)


def command_line(words: Sequence[str], journal: Path | None, **options: str | None) -> str:
    """A shell command with the options that have a value, and the journal if one is named."""
    given = {**options, "journal": None if journal is None else str(journal)}
    more = [part for name, text in given.items() if text for part in (f"--{name}", text)]
    return shlex.join([*words, *more])


def next_commands(dsn: str, restart: str) -> list[tuple[str, str]]:
    """The commands that advise, apply, measure and undo on a server: (purpose, command)."""
    how = "'COMMAND'" if restart in {"never", "ask"} else shlex.quote(restart)
    server = shlex.quote(dsn)
    return [
        ("advice for the running server", f"mrtuner tune {server}"),
        ("apply it; shows the plan first", f"mrtuner apply {server} --restart {how}"),
        ("measure it, on an idle server", f"mrtuner prove {server} --restart {how}"),
        ("undo it", f"mrtuner undo {server} --restart {how}"),
    ]
