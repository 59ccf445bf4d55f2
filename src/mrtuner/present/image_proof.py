"""A proof of two forms of an image as lines, from ``mrtuner.image.proof/1`` alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mrtuner.tables import aligned, bulleted
from mrtuner.units import pretty_bytes, pretty_duration
from mrtuner.wording import plural

_MOST: Final = 10
_VERDICTS: Final = {
    "better": "The second form is better",
    "worse": "The second form is worse",
    "equal": "It makes no difference",
}


def lines(told: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answer, then a row for each kind of change."""
    whole = told["kinds"][-1]
    yield _answer(told, whole)
    yield ""
    yield from _kinds(told["kinds"])
    yield ""
    yield from _besides(told["kinds"])
    yield ""
    yield (
        f"The final file trees and configurations are equal{_but(told)}. "
        f"A first pull takes {pretty_bytes(told['image_before'])} before, "
        f"{pretty_bytes(told['image_after'])} after."
    )
    yield (
        f"Replayed in random order (seed {told['seed']}): {told['what']}; "
        f"{told['builder']}, network {told['network']}."
    )
    if told["uplink"]:
        yield _seconds(told["uplink"], whole)
    yield from _lists(told)


def _answer(told: Mapping[str, Any], whole: Mapping[str, Any]) -> str:
    before, after = (pretty_bytes(_received(whole[form])) for form in ("before", "after"))
    return (
        f"{_VERDICTS[told['verdict']]}: {plural(whole['changes'], 'change')} pushed {after} "
        f"instead of {before}, {_saved(whole)}."
    )


def _received(form: Mapping[str, int]) -> int:
    return form["pushed"] + form["manifest"]


def _saved(kind: Mapping[str, Any]) -> str:
    """Return the change of the bytes pushed, with its sign: ``-69 %``."""
    more = _received(kind["after"]) / _received(kind["before"]) * 100 - 100
    return f"{more:+,.0f} %" if abs(more) >= 10 else f"{more:+.2g} %"


def _kinds(kinds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = [("change", "replayed", "pushed before", "after", "", "fewer", "more")]
    rows += [
        (
            one["kind"] or "all", str(one["changes"]), pretty_bytes(_received(one["before"])),
            pretty_bytes(_received(one["after"])), _saved(one), str(one["fewer"]), str(one["more"]),
        )
        for one in kinds
    ]  # fmt: skip
    yield from aligned(rows, right={1, 2, 3, 4, 5, 6})


def _besides(kinds: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the other costs of a change: bytes sent, built and fetched, new layers."""
    rows = [("sum", "sent", "lines built", "bytes built", "new layers", "fetched")]
    for one in kinds:
        for when in ("before", "after"):
            form = one[when]
            rows.append(
                (
                    f"{one['kind'] or 'all'}, {when}", pretty_bytes(form["sent"]),
                    str(form["lines"]), pretty_bytes(form["built"]), str(form["layers"]),
                    pretty_bytes(form["fetched"]),
                )
            )  # fmt: skip
    yield from aligned(rows, right={1, 2, 3, 4, 5})


def _but(told: Mapping[str, Any]) -> str:
    """Return what was not compared, in words; empty if everything was."""
    parts = []
    if told["noise"]:
        parts.append(f"what differs from build to build ({plural(len(told['noise']), 'path')})")
    if told["excepted"]:
        parts.append(", ".join(told["excepted"]))
    return f", but for {' and '.join(parts)}" if parts else ""


def _seconds(uplink: float, whole: Mapping[str, Any]) -> str:
    before, after = (_received(whole[form]) / uplink for form in ("before", "after"))
    return (
        f"At {uplink * 8 / 1e6:g} Mbit/s the bytes alone take {pretty_duration(before)} "
        f"before, {pretty_duration(after)} after: a division, not a measurement."
    )


def _lists(told: Mapping[str, Any]) -> Iterator[str]:
    noisy = [f"{one['path']}: {', '.join(one['what'])}" for one in told["noise"]]
    yield from bulleted("Differs between two builds of the same directory:", noisy[:_MOST])
    left = [f"{one['name']}: {one['why']}" for one in told["left_out"]]
    yield from bulleted("Left out:", left[:_MOST])
    for found in (noisy, left):
        if len(found) > _MOST:
            yield f"  and {len(found) - _MOST:,} more, see --json"
