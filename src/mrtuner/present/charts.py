"""Charts as inline SVG for light and dark mode and print, with names for screen readers.

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
from math import isfinite
from typing import TYPE_CHECKING, Any, Final
from xml.etree import ElementTree

from mrtuner.extras import without
from mrtuner.units import pretty_bytes

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
_INK, _SOFT, _LINE, _PAPER = (PALETTE[name].light for name in ("ink", "soft", "line", "paper"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartPair:
    """One pair of runs in the chart."""

    number: int
    a: float
    b: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Duel:
    """The content of the chart of paired runs; ratios are b / a."""

    name_a: str
    name_b: str
    blocks: Sequence[ChartPair]
    ratio: float
    low: float  # 0 and infinity when there is no interval
    high: float
    delta: float  # ratios from 1 / (1 + delta) to 1 + delta do not matter
    unit: str


def budget(parts: Sequence[tuple[str, int]], *, ceiling: int, memory: int, key: str) -> str:
    """Draw the worst case [bytes] as one stacked bar, each part also in a row of its own below.

    `key` becomes part of every id: two charts in one page need different ones.
    """
    with canvas(height=64 + 34 * (len(parts) + 1)) as figure:
        axes = figure.add_axes((0.2, 0.02, 0.78, 0.98 - 46 / _height(figure)))
        _draw_budget(axes, parts, ceiling, memory)
        total = sum(size for _, size in parts)
        return finish(
            figure,
            key,
            title=f"Memory budget: {pretty_bytes(total)} of {pretty_bytes(memory)}",
            desc="A bar stacked from "
            + ", ".join(f"{name} {pretty_bytes(size)}" for name, size in parts)
            + f"; the ceiling is {pretty_bytes(ceiling)}. The table below shows the same numbers.",
        )


def _draw_budget(axes: Axes, parts: Sequence[tuple[str, int]], ceiling: int, memory: int) -> None:
    total, rows = sum(size for _, size in parts), len(parts)
    tones = [PALETTE[f"part-{1 + place % 2}"].light for place in range(rows)]
    start = 0
    for place, ((name, size), tone) in enumerate(zip(parts, tones, strict=True), 1):
        axes.barh([0, place], [size, size], left=start, height=0.62, color=tone, edgecolor=_PAPER)
        _value_beside(axes, start, size, place, memory)
        axes.text(*_margin(place), name, ha="right", va="center", transform=_row(axes))
        start += size
    axes.text(*_margin(0), "worst case", ha="right", va="center", weight="bold",
              transform=_row(axes))  # fmt: skip
    _limit(axes, ceiling, f"ceiling {pretty_bytes(ceiling)}", level=0, style=(0, (5, 3)))
    _limit(axes, memory, f"memory {pretty_bytes(memory)}", level=1, style="solid")
    axes.set_xlim(0, max(memory, total) * 1.005)
    axes.set_ylim(rows + 0.5, -0.5)
    axes.set_axis_off()


def _value_beside(axes: Axes, start: int, size: int, place: int, memory: int) -> None:
    """Write the size of a part right of its bar, or left of it if the right has no room."""
    gap = memory * 0.008
    if start + size < memory * 0.72:
        axes.text(start + size + gap, place, pretty_bytes(size), ha="left", va="center")
    elif start > memory * 0.18:
        axes.text(start - gap, place, pretty_bytes(size), ha="right", va="center")
    else:
        inside = start + size - gap
        axes.text(inside, place, pretty_bytes(size), ha="right", va="center", color=_PAPER)


def _margin(row: int) -> tuple[float, float]:
    return -0.015, row


def _row(axes: Axes) -> Any:
    """Return a transform: across in shares of the chart, down in rows."""
    return axes.get_yaxis_transform()


def _limit(axes: Axes, at: int, text: str, *, level: int, style: Any) -> None:
    colour = PALETTE["limit"].light
    axes.axvline(at, color=colour, linewidth=1.5, linestyle=style)
    axes.annotate(
        text, (at, 1), xycoords=("data", "axes fraction"), xytext=(0, 6 + 17 * level),
        textcoords="offset points", ha="right", va="bottom", color=colour, annotation_clip=False,
    )  # fmt: skip


def pairs(duel: Duel, *, key: str) -> str:
    """Draw each block's two runs joined by a line, with its ratio, and all together below."""
    with canvas(height=96 + 24 * (len(duel.blocks) + 1)) as figure:
        height = _height(figure)
        bottom, tall = 50 / height, 1 - 90 / height
        left = figure.add_axes((0.09, bottom, 0.47, tall))
        right = figure.add_axes((0.62, bottom, 0.36, tall))
        _draw_runs(left, duel)
        _draw_ratios(right, duel)
        return finish(
            figure,
            key,
            title=f"{duel.name_b} against {duel.name_a}, block by block",
            desc=f"{len(duel.blocks)} pairs of runs in {duel.unit}; overall {duel.name_b} gives "
            f"{duel.ratio:.2f} times what {duel.name_a} gives. "
            "The table below shows every number.",
        )


def _draw_runs(axes: Axes, duel: Duel) -> None:
    rows = range(len(duel.blocks))
    first, second = [block.a for block in duel.blocks], [block.b for block in duel.blocks]
    axes.hlines(rows, first, second, color=_SOFT, linewidth=1)
    a, b = PALETTE["a"].light, PALETTE["b"].light
    axes.plot(first, rows, "o", markersize=8, color=_PAPER, markeredgecolor=a, markeredgewidth=2,
              label=f"A  {_short(duel.name_a)}")  # fmt: skip
    axes.plot(second, rows, "D", markersize=7, color=b, label=f"B  {_short(duel.name_b)}")
    axes.set_yticks(rows, [str(block.number) for block in duel.blocks])
    axes.set_ylabel("block", color=_SOFT)
    axes.set_xlabel(duel.unit, color=_SOFT)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0,
                handletextpad=0.2, columnspacing=1.6)  # fmt: skip
    axes.margins(x=0.08)
    axes.xaxis.set_major_locator(_few_ticks())
    axes.xaxis.set_major_formatter(_thousands)
    _plain(axes, rows=len(duel.blocks))


def _draw_ratios(axes: Axes, duel: Duel) -> None:
    rows = len(duel.blocks)
    b = PALETTE["b"].light
    axes.axvspan(1 / (1 + duel.delta), 1 + duel.delta, color=PALETTE["band"].light, linewidth=0)
    axes.axvline(1, color=_SOFT, linewidth=1)
    axes.plot([block.b / block.a for block in duel.blocks], range(rows), "D", markersize=5, color=b)
    if duel.low > 0 and isfinite(duel.high):
        axes.hlines([rows], [duel.low], [duel.high], color=b, linewidth=3)
        axes.vlines([duel.low, duel.high], rows - 0.22, rows + 0.22, color=b, linewidth=2)
    axes.plot([duel.ratio], [rows], "D", markersize=9, color=b)
    axes.set_yticks([rows], ["all"])
    axes.set_xlabel("ratio B / A; gray: no difference that matters", color=_SOFT)
    axes.xaxis.set_major_locator(_few_ticks())
    axes.margins(x=0.08)
    _plain(axes, rows=rows)


def _plain(axes: Axes, *, rows: int) -> None:
    """One row per block and one for all; no frame but a thin line above the axis."""
    axes.set_ylim(rows + 0.6, -0.6)
    axes.tick_params(axis="y", length=0, labelcolor=_INK)
    axes.tick_params(axis="x", color=_LINE, labelcolor=_INK)
    axes.grid(axis="x", color=_LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(_LINE)


def _few_ticks() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(nbins=5, min_n_ticks=3, steps=[1, 2, 5, 10])


def _thousands(value: float, _position: object) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:g}"


def _short(name: str, most: int = 22) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


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
    """Return our style, whatever the user's own matplotlibrc says."""
    return {
        **{key: value for key, value in defaults.items() if key != "backend"},
        "svg.fonttype": "none", "svg.hashsalt": "mrtuner", "text.parse_math": False,
        "font.size": _TEXT, "font.family": "DejaVu Sans", "axes.labelsize": _SMALL,
        "xtick.labelsize": _SMALL, "ytick.labelsize": _SMALL, "legend.fontsize": _TEXT,
        "text.color": _INK, "axes.labelcolor": _INK, "axes.edgecolor": _LINE,
        "xtick.color": _LINE, "ytick.color": _LINE, "axes.facecolor": "none",
        "figure.facecolor": "none", "savefig.facecolor": "none", "lines.linewidth": 1.5,
    }  # fmt: skip


def _height(figure: Figure) -> float:
    return float(figure.get_size_inches()[1]) * 72


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
    if len(at) != len(labels):  # those of the lower axes are for both
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
