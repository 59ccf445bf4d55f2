"""Undo the last change of a server that is down, in the files of its data directory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from mrtuner.change.journal import Journal
from mrtuner.change.record import Change, Outcome, ParameterChange, State
from mrtuner.change.settings.data_directory import belongs_to, read_text, replace_file, runs_from
from mrtuner.change.settings.live import AUTO_CONF
from mrtuner.change.settings.restart import NEVER, Restart
from mrtuner.change.settings.settings_transaction import SettingsTransaction
from mrtuner.change.transaction import Observer, unobserved
from mrtuner.errors import ApplyError, Refused, UsageError
from mrtuner.postgres.conf_file import LIST_QUOTED, elements, entries
from mrtuner.wording import enumerated


class StoppedUndo(SettingsTransaction):
    """The undo of a stopped server: done once the file is replaced, which happens at once."""

    def forward(self) -> None:
        """Replace the file. Starting with it comes after, so that it stays if the start fails."""
        file = self._file()
        if self.change.method == "include file":
            text = self.change.text_after
        else:
            after = {one.name: one.after for one in self.change.entries}
            text = self._with_entries(after)
        with self._step(State.WRITING, f"put back {file}"):
            replace_file(file, text)
        self._note(State.VERIFIED, "verified")

    def back(self) -> tuple[str, ...]:
        """Leave the file as it was found."""
        with self._step(State.REVERTING, f"put back {self._file()}"):
            replace_file(self._file(), self._old_text())
        self._note(State.REVERTED, "reverted")
        return ()

    def finish_or_put_back(self) -> Outcome:
        """End an interrupted undo; if it is finished, start the server if there is a way to."""
        if self.change.state is State.REVERTING:
            return self.put_back()
        self.carry_out()  # the older settings are those known to start
        self.start()
        return self.outcome("finished")

    def start(self) -> None:
        """Start the server and verify. ApplyError if it does not start with the old settings."""
        method = self.how.start or self.how.run
        if method is not None:
            self._start(method)
            if problems := self._settled("after", may_wait=False):
                raise ApplyError("; ".join(problems), "See the server's files.")


def stopped_change(journal: Journal, address: str, directory: Path | None) -> Change | None:
    """The last change of the server at an address, or of the one in a data directory.

    Raises Refused if several servers, such as a standby and its primary, have what it holds.
    """
    found = [
        one
        for one in journal.changes()
        if one.method in ("alter system", "include file")
        and (one.address == address if directory is None
             else belongs_to(directory, one.system_identifier))
    ]  # fmt: skip
    if directory is not None:
        found = _of_one_server(found, address, directory)
    left = (one for one in reversed(found) if one.state is State.VERIFIED)
    done = next((one for one in left if one.undoes is None and one.group is None), None)
    if done is None:
        return None
    moved = directory is not None and done.method == "alter system"
    return replace(done, file=str(directory / AUTO_CONF)) if moved and directory else done


def _of_one_server(found: list[Change], address: str, directory: Path) -> list[Change]:
    """The changes of the server in a directory, among those of all with its identity.

    A standby has its primary's, and on another machine often the same path.
    """
    here = (directory / AUTO_CONF).resolve()
    at = [one for one in found if one.file and Path(one.file).resolve() == here] or found
    named = [one for one in at if one.address == address]
    servers = {one.server for one in named or at}
    if len(servers) > 1:
        addresses = enumerated(dict.fromkeys(one.address for one in at))
        raise Refused(
            f"changes of several servers could be of {directory}: those at {addresses}",
            "A standby has its primary's identity: name the address that was changed.",
        )
    return [one for one in found if one.server in servers]


def undo_stopped(
    dsn: str,
    journal: Journal,
    done: Change,
    directory: Path | None = None,
    *,
    restart: Restart = NEVER,
    force: bool = False,
    at: Observer = unobserved,
) -> Outcome:
    """Put back what a change replaced, while its server is down; start it if `restart` says how.

    Refused if a server runs from the directory, if the files are not those of that server, or if
    a setting was changed since, unless `force`. ApplyError if the server does not start.
    """
    file = Path(done.file or AUTO_CONF)
    _require_stopped(directory or file.parent, done)
    text = read_text(file)
    now = entries(text or "")
    there = [(one, now.get(one.name.lower())) for one in done.entries]
    changed = [one.name for one, text in there if text != one.before and not _as_written(one, text)]
    if done.method == "include file" and text not in {done.text_before, done.text_after}:
        changed = changed or [f"others in {file}"]
    if changed and not force:
        raise Refused(
            f"settings were changed since: {', '.join(changed)}",
            "Restore them first, or overwrite them with --force.",
        )
    back = replace(
        done,
        entries=tuple(
            replace(one, before=now.get(one.name.lower()), after=one.before) for one in done.entries
        ),
        text_before=text if done.method == "include file" else None,
        text_after=done.text_before,
        undoes=done.id,
        local=True,
    )
    with journal.hold(done.server):
        transaction = StoppedUndo(dsn, journal, journal.begin(back), restart, at, None)
        transaction.carry_out()
        transaction.start()
        transaction.close()
    return Outcome(result="undone", change=done.id, changed=done.names)


def _as_written(one: ParameterChange, now: str | None) -> bool:
    if one.name in LIST_QUOTED and now is not None and one.after is not None:
        return elements(now) == elements(one.after)
    return now == one.after


def _require_stopped(directory: Path, done: Change) -> None:
    if done.method == "alter system" and not belongs_to(directory, done.system_identifier):
        raise UsageError(
            f"{directory} is not the data directory of the server that was changed, or cannot be "
            "written",
            "Run this on the server's machine as its owner, or name it: --data-directory DIR.",
        )
    if runs_from(directory):
        raise Refused(
            f"a server runs from {directory}",
            "Undo over a connection to it: mrtuner undo DSN.",
        )
