"""Figures as inline SVG for light and dark mode and print, with names for screen readers.

Colours are written as CSS custom properties (``var(--a, #005f9e)``) that the page defines; text
remains text. The same input gives the same bytes. matplotlib is only loaded to draw one.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import StringIO
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Literal
from xml.etree import ElementTree

from mrtuner.extras import without

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True)
class Colour:
    """One colour in both modes; `light` is also its placeholder in the SVG."""

    light: str
    dark: str


#: All light colours must differ: they are identified by their value. A and B are blue and orange,
#: which all common kinds of colour blindness distinguish; shapes distinguish them as well.
PALETTE: Final[Mapping[str, Colour]] = {
    "paper": Colour("#fdfdfb", "#16181c"),
    "ink": Colour("#1c1e22", "#e8e8e4"),
    "soft": Colour("#595d66", "#a9adb6"),
    "line": Colour("#d5d6d1", "#3a3d44"),
    "band": Colour("#eaebe5", "#26292f"),
    "a": Colour("#a84300", "#f2a65a"),
    "b": Colour("#005f9e", "#6cb6f0"),
    "part-1": Colour("#2f6f8f", "#4f9fc4"),
    "part-2": Colour("#5f8fa8", "#7f9fb4"),
    "limit": Colour("#9c1f2e", "#ff8f98"),
}

#: Shares of the width: a letter of a label, the space next to it, and the most for labels.
_LETTER: Final = 0.0085
_MARGIN: Final = 0.03
_LABELS: Final = 0.6
WIDTH: Final = 760  # of every chart, in user units; text is sized for about this width on screen
#: A page contains every chart twice, for a column of 1,120 px and for a phone of 390 px, so that
#: its text is readable at either width; the style sheet shows one of them.
_ON_PAGES: Final = (880, 480)
_widths: Final[ContextVar[tuple[int, ...]]] = ContextVar("widths", default=(WIDTH,))
_TEXT: Final = 13
_SMALL: Final = 12
_SVG: Final = "{http://www.w3.org/2000/svg}"
_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_INK, _LINE = (PALETTE[name].light for name in ("ink", "line"))


def room_for(labels: Iterable[str]) -> float:
    """Return the share of the width that the longest label needs left of the axes."""
    return min(_LABELS, _MARGIN + _LETTER * max(map(len, labels)))


@contextmanager
def canvas(height: int) -> Iterator[Figure]:
    """Yield a figure with one point per user unit, in our style while it is drawn and saved."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as missing:
        raise without("matplotlib") from missing
    with warnings.catch_warnings(), mpl.rc_context(_style(mpl.rcParamsDefault)):
        # The browser draws the text with its own fonts: a glyph missing from ours does not matter.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        yield Figure(figsize=(WIDTH / 72, height / 72), dpi=72)


def _style(defaults: Any) -> Any:
    """Return our style, which ignores the user's own matplotlibrc."""
    return {
        **{key: value for key, value in defaults.items() if key != "backend"},
        "svg.fonttype": "none", "svg.hashsalt": "mrtuner", "text.parse_math": False,
        "font.size": _TEXT, "font.family": "DejaVu Sans", "axes.labelsize": _SMALL,
        "xtick.labelsize": _SMALL, "ytick.labelsize": _SMALL, "legend.fontsize": _TEXT,
        "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _LINE,
        "xtick.color": _LINE, "ytick.color": _LINE, "axes.facecolor": "none",
        "figure.facecolor": "none", "savefig.facecolor": "none", "lines.linewidth": 1.5,
    }  # fmt: skip


@contextmanager
def for_every_screen() -> Iterator[None]:
    """Make `finish` return each chart for wide and for narrow screens; also a decorator."""
    before = _widths.set(_ON_PAGES)
    try:
        yield
    finally:
        _widths.reset(before)


def finish(figure: Figure, key: str, *, title: str, desc: str) -> str:
    """Return the figure as inline SVG; `key` becomes part of every id, `desc` is read aloud."""
    first, *narrower = _widths.get()
    _widen(figure, first)
    drawn = _inline(figure, key, title, desc)
    if not narrower:
        return drawn
    _widen(figure, narrower[0])
    _stack(figure)
    _fit_labels(figure)
    small = _inline(figure, f"{key}-narrow", title, desc)
    return f'<div class="on-wide">{drawn}</div>\n<div class="on-narrow">{small}</div>'


def _widen(figure: Figure, width: int) -> None:
    """Change the width but keep the margins, since text does not grow or shrink."""
    before, height = (72 * float(size) for size in figure.get_size_inches())
    for axes in figure.axes:
        place = axes.get_position()
        left, right = place.x0 * before / width, 1 - (1 - place.x1) * before / width
        axes.set_position((left, place.y0, right - left, place.height))
    figure.set_size_inches(width / 72, height / 72)


def _stack(figure: Figure) -> None:
    """Put columns below one another, each as wide as all of them were."""
    places = {axes: axes.get_position() for axes in figure.axes}
    columns = sorted({round(place.x0, 6) for place in places.values()})
    if len(columns) < 2:
        return
    width, height = (float(size) for size in figure.get_size_inches())
    figure.set_size_inches(width, height * len(columns))
    left, right = columns[0], max(place.x1 for place in places.values())
    for axes, place in places.items():
        below = len(columns) - 1 - columns.index(round(place.x0, 6))
        axes.set_position((
            left, (below + place.y0) / len(columns), right - left, place.height / len(columns)
        ))  # fmt: skip


def _fit_labels(figure: Figure) -> None:
    """Fit labels below narrow axes: shorten the title, and keep the ticks that have room."""
    figure.draw_without_rendering()
    for axes in figure.axes:
        axes.xaxis.label.set_horizontalalignment("right")
        axes.xaxis.label.set_x(1)
        _thin_out(axes)


def _thin_out(axes: Axes) -> None:
    low, high = sorted(axes.get_xlim())
    at, labels = axes.get_xticks(), axes.get_xticklabels()
    if len(at) != len(labels):  # the axes below have the labels for both
        return
    shown = [
        (place, label) for place, label in zip(at, labels, strict=True)
        if low <= place <= high and label.get_text()
    ]  # fmt: skip
    boxes = [label.get_window_extent() for _, label in shown]
    every = next((step for step in range(1, len(boxes)) if _apart(boxes[::step])), 1)
    if every > 1:
        axes.set_xticks(
            [at for at, _ in shown[::every]],
            [label.get_text() for _, label in shown[::every]],
            ha=shown[0][1].get_horizontalalignment(),
        )


def _apart(boxes: Sequence[Any]) -> bool:
    """Whether there is room for a letter between all neighbours."""
    return all(one.x1 + _LETTER * WIDTH < two.x0 for one, two in pairwise(boxes))


def _inline(figure: Figure, key: str, title: str, desc: str) -> str:
    written = StringIO()
    nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
    figure.savefig(written, format="svg", metadata=nothing)
    root = ElementTree.fromstring(written.getvalue())  # noqa: S314 - matplotlib wrote it just now
    _drop_globals(root)
    _make_ids_our_own(root, key)
    _name(root, key, title, desc)
    return _as_properties(ElementTree.tostring(root, encoding="unicode"))


def _drop_globals(root: ElementTree.Element) -> None:
    """Remove metadata, and the style sheet, which would style the whole page."""
    for parent in list(root.iter()):
        parent.tag = parent.tag.removeprefix(_SVG)
        for child in list(parent):
            if child.tag in (f"{_SVG}metadata", f"{_SVG}style"):
                parent.remove(child)
    root.set("xmlns", _SVG.strip("{}"))
    root.set("stroke-linejoin", "round")
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)


def _make_ids_our_own(root: ElementTree.Element, key: str) -> None:
    """Prefix ids that are referred to, drop all others, and turn xlink:href into href."""
    used: set[str] = set()
    for element in root.iter():
        if _XLINK in element.attrib:
            element.set("href", element.attrib.pop(_XLINK))
        for name in ("href", "clip-path"):
            if name in element.attrib:
                element.set(name, element.attrib[name].replace("#", f"#{key}-"))
                used.update(re.findall(r"#([\w-]+)", element.attrib[name]))
    for element in root.iter():
        own = f"{key}-{element.attrib.pop('id', '')}"
        if own in used:
            element.set("id", own)


def _name(root: ElementTree.Element, key: str, title: str, desc: str) -> None:
    for place, (tag, text) in enumerate((("title", title), ("desc", desc))):
        element = ElementTree.Element(tag, id=f"{key}-{tag}")
        element.text = text
        root.insert(place, element)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-desc")


def _as_properties(svg: str) -> str:
    """Turn colours into custom properties, and fonts into the page's."""
    for name, colour in PALETTE.items():
        svg = svg.replace(colour.light, f"var(--{name}, {colour.light})")
    return re.sub(r"'DejaVu Sans'(?:, [^;\"]*)?", "inherit", svg)


def stand_alone(svg: str, mode: Literal["light", "dark"]) -> str:
    """Return an SVG of `finish` as a file of its own, with light or dark colours and background."""

    def colour(match: re.Match[str]) -> str:
        chosen: str = getattr(PALETTE[match[1]], mode)
        return chosen

    svg = re.sub(r"var\(--([\w-]+), #[0-9a-f]+\)", colour, svg)
    svg = svg.replace("inherit", "system-ui, sans-serif")
    ink, paper = (getattr(PALETTE[name], mode) for name in ("ink", "paper"))
    sheet = f'<rect width="100%" height="100%" fill="{paper}"/>'
    svg = re.sub(r"<svg ", f'<svg fill="{ink}" ', svg, count=1)
    return re.sub(r"(</desc>)", rf"\1{sheet}", svg, count=1) + "\n"
