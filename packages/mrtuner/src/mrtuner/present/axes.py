"""The look that the axes of all charts share: a thin grid, and little of a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from mrtuner.present.figures import PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_INK: Final = PALETTE["ink"].light
_LINE: Final = PALETTE["line"].light
_SIDES: Final = ("top", "right", "bottom", "left")


def plain(axes: Axes, *, bottom: bool = True) -> None:
    """Draw only a thin bottom line with ticks; without `bottom`, for axes above others, nothing.

    The y-axis has no ticks: grid lines lead to its values.
    """
    axes.tick_params(axis="y", length=0, labelcolor=_INK)
    axes.tick_params(axis="x", color=_LINE, labelcolor=_INK, bottom=bottom, labelbottom=bottom)
    frame(axes, *(["bottom"] if bottom else []))


def frame(axes: Axes, *sides: str) -> None:
    """Draw these sides of the frame as thin lines, and no others."""
    for side in _SIDES:
        axes.spines[side].set_visible(side in sides)
        axes.spines[side].set_color(_LINE)


def grid(axes: Axes, axis: Literal["x", "y", "both"]) -> None:
    """Draw thin lines at the ticks of an axis, below everything else."""
    axes.grid(axis=axis, color=_LINE, linewidth=0.6)
    axes.set_axisbelow(True)
