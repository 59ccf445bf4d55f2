"""The image of the 2014 example, measured, for `docs.generate`: a page with tables, and a picture.

docs/image-seed.json is what `bench/seed_image.py --write docs` measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mrtuner.image.uplink import parse_uplink
from mrtuner.present import figures
from mrtuner.units import pretty_bytes
from mrtuner.wording import plural

FILE: Final = Path(__file__).resolve().parent / "image-seed.json"
_ABOUT: Final = """\
# A deploy of 2014, measured

The Dockerfile at the start of [Golf an image](../how-to/golf-an-image.md), at the size of the 2014
application, in five forms (`make bench-image-seed`). Each form was built and pushed to its own
registry. Then one line of code was changed in `app/models.rb`, and the form was built and pushed
again. *Predicted* is the output of `mrtuner image cost`, before anything is built and with
`--image` of the last build.
"""
_FORMS: Final[Mapping[str, str]] = {
    "original": "logs and `.git` in the context, `chown -R` after `ADD`, assets built last",
    "with an ignore file": "logs and `.git` left out: three layers of 72, 100 and 15 MB",
    "the 2014 solution": "gems first, assets built outside, owner set at each container start",
    "as advised": "with all patches of `mrtuner image advise`",
    "with fixed timestamps": "the same, built with `podman build --timestamp 0`",
}
#: What the change of 2014 saved per deploy [s].
_NINE_MINUTES: Final = 540
#: The form with whose image all others are compared.
_REFERENCE: Final = "with an ignore file"
#: Speeds that are drawn [Mbit/s].
_FROM, _TO = 2, 200
_COLOURS: Final = ("limit", "a", "soft", "b", "part-1")
_TALL: Final = 320
_PICTURE: Final = "Seconds per push by uplink: lines are calculated, points measured"


def read() -> dict[str, Any]:
    """What was measured."""
    told: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return told


def _forms(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The forms that were measured, from the most expensive to the cheapest."""
    by_name = {form["name"]: form for form in told["forms"]}
    return [by_name[name] for name in _FORMS if name in by_name]


def image_page() -> Iterator[str]:
    """The page."""
    yield from _ABOUT.splitlines()
    yield ""
    yield from sections(read())


def sections(told: Mapping[str, Any]) -> Iterator[str]:
    """Everything below the introduction."""
    yield from _made_of(told)
    yield ""
    yield "## Bytes of one changed line"
    yield ""
    yield from _bytes(told)
    yield ""
    yield "## Layers"
    yield ""
    yield from _layers(next(one for one in told["forms"] if one["name"] == _REFERENCE))
    yield ""
    yield "## Minutes"
    yield ""
    yield from _minutes(told)
    yield ""
    yield f"![{_PICTURE}](../images/image-seed.svg)"
    yield ""
    yield "## The Dockerfiles"
    shown = ("original", "the 2014 solution", "as advised")
    for form in (one for one in _forms(told) if one["name"] in shown):
        yield ""
        yield f"{form['name'].capitalize()}: {_FORMS[form['name']]}."
        yield ""
        yield "```"
        yield from (line for line in form["recipe"].splitlines() if line)
        yield "```"


def _made_of(told: Mapping[str, Any]) -> Iterator[str]:
    parts = "; ".join(
        f"{name} {pretty_bytes(part['bytes'])} in {plural(part['files'], 'file')}"
        for name, part in told["parts"].items()
    )
    yield (
        f"Made from a fixed seed: {parts}. Of the source, 40 MB are pictures and 32 MB text "
        "as compressible as MrTuner's own source; pictures, assets and `.git` are compressed "
        "already. Gems and assets come from stand-ins for `bundle` and `rake`, since builds have "
        "no network. "
        f"Measured with {told['builder']}, {told['registry']}, Linux {told['linux']}, "
        f"{told['cpus']} CPUs."
    )


def _bytes(told: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "| Form | sent | lines built | built | **pushed** | predicted with `--image` | "
        "predicted before | first push |"
    )
    yield "|:--|--:|--:|--:|--:|--:|--:|--:|"
    for form in _forms(told):
        now = form["changed"]
        yield (
            f"| {form['name']} | {pretty_bytes(form['sent'])} | {now['lines']} | "
            f"{pretty_bytes(now['built'])} | **{pretty_bytes(now['pushed'])}** | "
            f"{_predicted(form['known'], now['pushed'])} | {_predicted(form['predicted'], 0)} | "
            f"{pretty_bytes(form['first']['received'])} |"
        )
    yield ""
    yield (
        "*At least*: what a RUN writes is unknown before a build. With fixed timestamps, rebuilt "
        "assets are identical and not pushed; the prediction does not know of `--timestamp` and "
        "counts them."
    )
    yield ""
    for form in _forms(told):
        about = f"- *{form['name'].capitalize()}*: {_FORMS[form['name']]}. {_same(form)}"
        yield about.rstrip()
    for form in _forms(told):
        if "start" in form:
            yield ""
            yield (
                "What the 2014 solution no longer pushes, it writes elsewhere: `chown` at each "
                f"start of a container copies {pretty_bytes(form['start']['written'])} "
                "(measured as a line of a Dockerfile)."
            )


def _predicted(one: Mapping[str, Any], pushed: int) -> str:
    """The predicted bytes, and by how many percent they miss `pushed` unless that is zero."""
    least = "at least " if one["unknown"] else ""
    text = f"{least}{pretty_bytes(one['pushed'])}"
    if not pushed:
        return text
    off = 100 * (one["pushed"] / pushed - 1)
    return f"{text} ({'within 0.1' if abs(off) < 0.1 else f'{off:+.0f}'} %)"


def _same(form: Mapping[str, Any]) -> str:
    """How a form's image differs from that of the reference form; nothing for that form itself."""
    if form["name"] == _REFERENCE:
        return ""
    if not form["differs"]:
        return f"Same image as *{_REFERENCE}*, except for the ignored files and the recipe."
    told = ", ".join(
        f"{plural(number, 'path')} with another owner" if what == "owner" else f"another {what}"
        for what, number in form["differs"].items()
    )
    return f"Not the same image as *{_REFERENCE}*: {told}."


def _layers(form: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "What the changed line pushed with an ignore file. *Again* counts the bytes of files that "
        "a lower layer has at the same path with the same content: what `chown` doubles."
    )
    yield ""
    yield "| Made by | archive | pushed | again |"
    yield "|:--|--:|--:|--:|"
    for layer in form["changed"]["layers"]:
        yield (
            f"| `{layer['by']}` | {pretty_bytes(layer['archive'])} | {pretty_bytes(layer['blob'])} "
            f"| {pretty_bytes(layer['again']) if layer['again'] else ''} |"
        )


def _minutes(told: Mapping[str, Any]) -> Iterator[str]:
    yield (
        "How long a push takes depends on the uplink to the registry: seconds = bytes / uplink. "
        "The uplink of 2014 is not known, so its nine minutes cannot be reproduced; they are the "
        "saving on an uplink of this speed:"
    )
    yield ""
    first, *others = _forms(told)
    for form in others:
        saved = _received(first) - _received(form)
        speed = saved * 8 / _NINE_MINUTES / 1e6
        yield f"- from *{first['name']}* to *{form['name']}*: at {speed:.3g} Mbit/s."
    yield ""
    yield (
        "The same pushes through a link throttled by the kernel (a token bucket, packets of 1,500 "
        "bytes, no delay). Headers are 5 %; the rest is requests to the registry and other "
        "programs on the machine, so of several pushes the fastest counts."
    )
    yield ""
    yield "| Form | uplink | bytes / uplink | measured | more | pushes |"
    yield "|:--|--:|--:|--:|--:|:--|"
    for form in _forms(told):
        for rate, seconds in _pushes(form).items():
            ideal = _received(form) / parse_uplink(rate)
            least = min(seconds)
            each = ", ".join(f"{one:.1f}" for one in sorted(seconds)) if seconds[1:] else ""
            yield (
                f"| {form['name']} | {rate} | {ideal:.1f} s | **{least:.1f} s** | "
                f"{100 * (least / ideal - 1):+.0f} % | {each} |"
            )


def _pushes(form: Mapping[str, Any]) -> dict[str, list[float]]:
    """The seconds of each push, by the speed of the uplink."""
    found: dict[str, list[float]] = {}
    for one in form["pushes"]:
        found.setdefault(one["rate"], []).append(one["seconds"])
    return found


def _received(form: Mapping[str, Any]) -> int:
    return int(form["changed"]["pushed"] + form["changed"]["manifests"])


def image_picture() -> str:
    """Seconds of a push by the speed of the uplink: calculated, and measured."""
    told = read()
    with figures.canvas(height=_TALL) as figure:
        axes = figure.add_axes((0.1, 0.16, 0.87, 0.66))
        for form, name in zip(_forms(told), _COLOURS, strict=True):
            colour = figures.PALETTE[name].light
            bits = 8 * _received(form) / 1e6
            axes.plot([_FROM, _TO], [bits / _FROM, bits / _TO], color=colour, label=form["name"])
            seen = [(8e-6 * parse_uplink(rate), min(each)) for rate, each in _pushes(form).items()]
            axes.plot(*zip(*seen, strict=True), "o", color=colour)
        axes.set(xscale="log", yscale="log", xlim=(_FROM, _TO))
        axes.set_xticks([2, 5, 10, 20, 50, 100, 200], list(map(str, (2, 5, 10, 20, 50, 100, 200))))
        axes.set_yticks([1, 10, 60, 600], ["1 s", "10 s", "1 min", "10 min"])
        axes.minorticks_off()
        axes.set_xlabel("uplink, Mbit/s; points: measured")
        axes.tick_params(labelcolor=figures.PALETTE["soft"].light)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=3, frameon=False)
        return figures.finish(
            figure, "image-seed", title="Pushing one changed line, by uplink",
            desc=f"{_PICTURE}. The tables have every figure.",
        )  # fmt: skip
