"""The cost of a change to an image as lines for a terminal, from its document alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from mrtuner.text_tables import aligned
from mrtuner.units import pretty_bytes
from mrtuner.wording import cut, enumerated, plural

if TYPE_CHECKING:
    from mrtuner_image.document import (
        CostDocument,
        CostedChange,
        CostLine,
        MissedFile,
        PreviousImage,
        ReplayedCommit,
        SentContext,
        SumOfLayers,
    )

#: Directories and misplaced files shown; --json has all.
_MOST: Final = 10
#: An instruction is cut to this many characters.
_WIDE: Final = 56


def lines(told: CostDocument) -> Iterator[str]:
    """Yield the answer, the most usual change first."""
    yield from _answer(told.changes)
    yield ""
    yield from _changes(told.changes)
    yield ""
    yield from _instructions(told.lines, told.changes)
    yield ""
    yield from _context(told.context, told.builder.startswith("BuildKit"))
    yield from _missed(told.context.missed)
    yield ""
    yield from _commits(told.commits)
    yield from _image(told.image)
    yield (
        f"Rules of {told.builder}; other builders decide differently. "
        f"{_accuracy(told.changes, told.pushed_within)} A layer that is rebuilt "
        "identically is not pushed again."
    )


def _accuracy(changes: Sequence[CostedChange], share: float) -> str:
    """Return how far off pushed bytes may be, with the first known number as an example."""
    said = "Pushed bytes are compressed by different code than the builder's, and may be "
    said += f"{share:.0%} more or less".replace("%", " %")
    pushed = next((one.pushed for one in changes if one.pushed.known), None)
    if pushed is None:
        return f"{said}."
    least, most = (pretty_bytes(round(pushed.known * part)) for part in (1 - share, 1 + share))
    if pushed.unknown_lines:
        return f"{said}: {_total(pushed)} is at least {least}."
    return f"{said}: {_total(pushed)} is {least} to {most}."


def _image(image: PreviousImage | None) -> Iterator[str]:
    if image is not None:
        yield (
            f"Sizes of the layers of {image.name}: a first pull of it takes "
            f"{pretty_bytes(image.size)}, {pretty_bytes(image.base_bytes)} of it for the "
            f"{plural(image.base_layers, 'layer')} of its base."
        )


def _answer(changes: Sequence[CostedChange]) -> Iterator[str]:
    """Yield one sentence on the first kind of change, which is code if there is any."""
    if not changes:
        yield "No file of the context and no build argument can change this image."
        return
    first = changes[0]
    of = "build argument" if not first.files else f"file of {first.kind}"
    of = {"file of other": "file", "file of asset": "asset"}.get(of, of)
    again = [one.line for one in first.lines if one.state != "cached"]
    if not again:
        yield f"One changed {of} ({first.example}) rebuilds nothing: no line copies it."
        return
    yield (
        f"One changed {of} ({first.example}) builds {len(again)} of "
        f"{plural(len(first.lines), 'line')} again, from line {again[0]}: "
        f"{_total(first.rebuilt)} rebuilt, {_total(first.pushed)} pushed."
    )


def _changes(changes: Sequence[CostedChange]) -> Iterator[str]:
    rows = [("change", "files", "such as", "from line", "rebuilt", "pushed")]
    for one in changes:
        again = [str(line.line) for line in one.lines if line.state != "cached"]
        rows.append(
            (
                one.kind, f"{one.files:,}" if one.files else "", one.example,
                again[0] if again else "none", _total(one.rebuilt), _total(one.pushed),
            )
        )  # fmt: skip
    yield from aligned(rows, right={1, 3})


def _total(total: SumOfLayers) -> str:
    return known_bytes(total.known, more=bool(total.unknown_lines))


def known_bytes(size: int, *, more: bool) -> str:
    """Return the bytes that are known, and whether there are `more`."""
    if not more:
        return pretty_bytes(size)
    return f"at least {pretty_bytes(size)}" if size else "unknown"


def _instructions(found: Sequence[CostLine], changes: Sequence[CostedChange]) -> Iterator[str]:
    again: dict[int, dict[str, None]] = {}
    for change in changes:
        for one in change.lines:
            if one.state != "cached":
                mark = "" if one.state == "rebuilt" else "?"
                again.setdefault(one.line, {})[change.kind + mark] = None
    every = {change.kind for change in changes}
    rows = [("line", "instruction", "layer", "built again by a change of")]
    for line in found:
        kinds = again.get(line.line, {})
        by = "any" if every == set(kinds) and len(every) > 1 else ", ".join(kinds)
        text = cut(" ".join(line.text.split()), _WIDE)
        rows.append((str(line.line), text, _layer(line), by))
    yield from aligned(rows, right={0})
    if any(kind.endswith("?") for kinds in again.values() for kind in kinds):
        yield "?: depends on the result of the stage that the line copies from."


def _layer(line: CostLine) -> str:
    if line.size is not None:
        return pretty_bytes(line.size) if line.size else "none"
    return f"at least {pretty_bytes(line.at_least)}" if line.at_least else "unknown"


def _context(context: SentContext, by_difference: bool) -> Iterator[str]:
    by = f"after {context.ignore_file}" if context.ignore_file else "no ignore file"
    yield (
        f"Context: {plural(context.files, 'file')}, {pretty_bytes(context.sent)}, {by}. "
        + (
            "BuildKit receives the files that lines copy, then what has changed."
            if by_difference
            else "A remote builder receives all of it."
        )
    )
    shown = context.directories[:_MOST]
    rows = [(f"  {one.path}", f"{one.files:,}", pretty_bytes(one.sent)) for one in shown]
    if rows:
        yield from aligned([("  directory", "files", "bytes"), *rows], right={1, 2})
    yield from _more(len(context.directories))


def _missed(missed: Sequence[MissedFile]) -> Iterator[str]:
    if not missed:
        return
    secrets = [one.path for one in missed if one.what == "secret"]
    yield ""
    yield "Not in the ignore file, but should be:"
    rows = [(f"  {one.path}", one.what, pretty_bytes(one.sent)) for one in missed[:_MOST]]
    yield from aligned(rows, right={2})
    yield from _more(len(missed))
    if secrets:
        yield f"Judging by the names, {enumerated(secrets[:3])} should not leave this machine."


def _commits(commits: Sequence[ReplayedCommit] | None) -> Iterator[str]:
    """Yield a row for each first line and kind of change: commits, bytes, latest subject."""
    if commits is None:
        return
    told = [one for one in commits if not one.recipe]
    changed = len(commits) - len(told)
    but = f"; {changed} changed the Dockerfile or its ignore file and are not counted"
    yield f"The last {plural(len(commits), 'commit')}, replayed{but if changed else ''}:"
    alike: dict[tuple[int | None, str], list[ReplayedCommit]] = {}
    for one in told:
        alike.setdefault((one.first_line, one.kind), []).append(one)
    rows = [("  from line", "change", "commits", "pushed by each", "latest")]
    for line, kind in sorted(alike, key=lambda key: (key[0] is None, key)):
        found = alike[line, kind]
        rows.append(
            (
                f"  {line if line is not None else 'none'}", kind, f"{len(found):,}",
                _range([one.pushed for one in found]), found[0].subject[:_WIDE],
            )
        )  # fmt: skip
    yield from aligned(rows, right={2})
    yield ""


def _range(totals: Sequence[SumOfLayers]) -> str:
    least, most = (pick(totals, key=lambda one: one.known) for pick in (min, max))
    return _total(least) if least == most else f"{_total(least)} to {_total(most)}"


def _more(number: int) -> Iterator[str]:
    if number > _MOST:
        yield f"  and {number - _MOST:,} more, see --json"
