"""A parameter group as a report: its formulas, their values on every class, and a chart."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mrtuner.present import figures, text
from mrtuner.present.axes import frame, grid
from mrtuner.present.html import rendered
from mrtuner.units import GiB, pretty_bytes
from mrtuner.wording import first_few
from rdstune.group.derive import Design
from rdstune.group.group_settings import Setting
from rdstune.group.sizes import Size

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Settings shown in a table over many classes; the others follow from them or do not change.
SHOWN: Final = ("max_connections", "shared_buffers", "work_mem", "maintenance_work_mem")


def screen(design: Design, here: Size, sizes: Sequence[Size], look: text.Look) -> Iterator[str]:
    """Yield the group for a terminal."""
    yield from text.heading(f"{design.family.name} on {design.instance_class.name}", look)
    yield from text.entries(list(_machine(design)), look)
    yield ""
    yield from _settings(design, here, look)
    yield ""
    yield from text.paragraph(_budget_line(here), look)
    yield from text.paragraph(everywhere(design, sizes), look)
    for name, why in design.without.items():
        yield from text.paragraph(f"{name} is left unchanged: {why}.", look)
    if design.sessions is not None:
        yield from text.paragraph(f"{design.sessions.promise}.", look)
        yield from text.paragraph(design.sessions.buys, look)


def _machine(design: Design) -> Iterator[tuple[str, str]]:
    yield "memory", f"DBInstanceClassMemory {design.memory}"
    yield "vCPUs", str(design.instance_class.vcpus)
    yield "storage", f"{pretty_bytes(design.request.storage)} allocated"
    yield "workload", str(design.request.workload)


def _settings(design: Design, here: Size, look: text.Look) -> Iterator[str]:
    header = ("parameter", "gives", "method", "value")
    rows = [
        (
            item.name,
            design.shown(item.name, here),
            "reboot" if item.method == "pending-reboot" else "now",
            _value(item),
        )
        for item in design.settings
    ]
    yield from text.table(header, rows, look)


def _value(setting: Setting) -> str:
    if setting.share >= 0.9:
        return setting.value
    return f"{setting.value} ({setting.share:.0%} of what the rule gives here)"


def _budget_line(here: Size) -> str:
    few = here.reckoned
    what = f" with {few.open:,} sessions open, {few.active} of them sorting" if few else ""
    return (
        f"Worst case{what} on {here.instance_class.name}: {pretty_bytes(here.budget.total)} of "
        f"{pretty_bytes(here.budget.memory)} ({float(here.share):.0%})."
    )


def everywhere(design: Design, sizes: Sequence[Size]) -> str:
    """Return one sentence: on how many classes the group holds, and on which it does not."""
    broken = [size.instance_class.name for size in sizes if not size.holds]
    held = len(sizes) - len(broken)
    said = f"Holds on {held} of {len(sizes)} classes of {design.family.engine}"
    if not broken:
        return f"{said}."
    return f"{said}; not on {first_few(broken, 8)}."


def every_class(design: Design, sizes: Iterable[Size], look: text.Look) -> Iterator[str]:
    """Yield the table over all classes."""
    names = [name for name in SHOWN if name in design.values]
    header = ("class", "memory", *names, "worst case", "")
    rows = [
        (
            size.instance_class.name,
            pretty_bytes(size.memory.value),
            *(design.shown(name, size) for name in names),
            f"{float(size.share):.0%}",
            "" if size.holds else "does not hold" + "".join(f"; {text}" for text in size.outside),
        )
        for size in sizes
    ]
    yield from text.table(header, rows, look)


def _headline(design: Design, sizes: Sequence[Size]) -> str:
    """Return whether the group stays valid if the instance is resized."""
    broken = sum(not size.holds for size in sizes)
    if not broken:
        return f"The group holds on all {len(sizes)} classes of {design.family.engine}"
    return f"The group does not hold on {broken} of {len(sizes)} classes of {design.family.engine}"


@figures.for_every_screen()
def page(design: Design, here: Size, sizes: Sequence[Size]) -> str:
    """Return the group as one self-contained HTML page, with the chart over all classes."""
    names = [name for name in SHOWN if name in design.values]
    return rendered(
        Path(__file__).with_suffix(".html"),
        design=design,
        here=here,
        machine=list(_machine(design)),
        settings=[(item, design.shown(item.name, here)) for item in design.settings],
        headline=_headline(design, sizes),
        sentence=everywhere(design, sizes),
        budget_line=_budget_line(here),
        sessions=f"{some.promise}. {some.buys}" if (some := design.sessions) else None,
        picture=picture(sizes, key="classes"),
        names=names,
        rows=[(size, [design.shown(name, size) for name in names]) for size in sizes],
    )


def picture(sizes: Sequence[Size], *, key: str) -> str:
    """Draw the worst case as a share of memory, one mark per class, with the ceiling."""
    with figures.canvas(height=320) as figure:
        axes = figure.add_axes((0.09, 0.16, 0.89, 0.74))
        _draw(axes, sizes)
        held = sum(size.holds for size in sizes)
        return figures.finish(
            figure,
            key,
            title=f"Worst case over all classes: {held} of {len(sizes)} within the ceiling",
            desc="One mark for each instance class: horizontally its memory, vertically the share "
            "of it that the group's values use in the worst case. The table below has all numbers.",
        )


def _draw(axes: Axes, sizes: Sequence[Size]) -> None:
    for holds, name, mark, words in ((True, "b", "D", "holds"), (False, "a", "X", "does not hold")):
        some = [size for size in sizes if size.holds is holds]
        memory = [size.memory.value / GiB for size in some]
        share = [float(size.share) * 100 for size in some]
        axes.plot(memory, share, mark, markersize=6, color=figures.PALETTE[name].light, label=words)
    limit = figures.PALETTE["limit"].light
    ceiling = max(float(size.budget.ceiling) / size.budget.memory for size in sizes) * 100
    axes.axhline(ceiling, color=limit, linestyle=(0, (5, 3)), linewidth=1.2)
    axes.annotate(f"ceiling {ceiling:.0f} %", (1, ceiling), xycoords=("axes fraction", "data"),
                  xytext=(0, 4), textcoords="offset points", color=limit, ha="right")  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xlabel("DBInstanceClassMemory, GB", color=figures.PALETTE["soft"].light)
    axes.set_ylabel("worst case, % of memory", color=figures.PALETTE["soft"].light)
    axes.set_ylim(0, max(100.0, *(float(size.share) * 105 for size in sizes)))
    axes.tick_params(color=figures.PALETTE["line"].light, labelcolor=figures.PALETTE["ink"].light)
    grid(axes, "both")
    frame(axes, "left", "bottom")
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, borderpad=0)
