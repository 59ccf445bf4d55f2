"""Pictures: well formed, named, coloured by the page, and the same every time."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from mrtuner.present import charts, figures
from mrtuner.units import GiB, MiB

SVG = "{http://www.w3.org/2000/svg}"
PARTS = [("shared memory", 4 * GiB), ("sorts and hashes", 8 * GiB), ("processes", 512 * MiB)]
DUEL = charts.Duel(
    name_a="current",
    name_b="advised",
    blocks=[(1, 1000, 1400), (2, 990, 1450)],
    ratio=1.43,
    low=1.31,
    high=1.54,
    delta=0.03,
    unit="transactions per second",
)


def draw_budget(key: str = "budget") -> str:
    return charts.budget(PARTS, ceiling=14 * GiB, memory=16 * GiB, key=key)


def draw_pairs(key: str = "pairs") -> str:
    return charts.pairs(DUEL, key=key)


DRAWN = pytest.mark.parametrize("draw", [draw_budget, draw_pairs])


def words(svg: str) -> list[str]:
    return ["".join(text.itertext()) for text in ElementTree.fromstring(svg).iter(f"{SVG}text")]


@DRAWN
def test_a_screen_reader_finds_a_name_and_a_description(draw: Callable[..., str]) -> None:
    root = ElementTree.fromstring(draw())
    title, desc = list(root)[:2]
    assert (root.tag, root.get("role")) == (f"{SVG}svg", "img")
    assert (title.tag, desc.tag) == (f"{SVG}title", f"{SVG}desc")
    assert root.get("aria-labelledby") == f"{title.get('id')} {desc.get('id')}"
    assert title.text
    assert "The table below" in (desc.text or "")


@DRAWN
def test_every_colour_is_the_pages_to_choose(draw: Callable[..., str]) -> None:
    svg = draw()
    properties = set(re.findall(r"var\(--([\w-]+), (#[0-9a-f]{6})\)", svg))
    assert properties
    assert all(figures.PALETTE[name].light == value for name, value in properties)
    rest = re.sub(r"var\(--[\w-]+, #[0-9a-f]{6}\)", "", svg)
    assert not re.search(r"#[0-9a-fA-F]{3,8}\b(?!-)[;\"]|rgb\(|black|white", rest)


def test_light_colours_can_be_told_apart() -> None:
    lights = [colour.light for colour in figures.PALETTE.values()]
    assert len(set(lights)) == len(lights)


@DRAWN
def test_ids_do_not_collide_and_every_reference_is_met(draw: Callable[..., str]) -> None:
    one, two = draw("one"), draw("two")
    ids = re.findall(r'\bid="([^"]+)"', one + two)
    assert len(set(ids)) == len(ids)
    asked = re.findall(r'(?:url\(|href=")#([\w-]+)', one + two)
    assert asked
    assert set(asked) <= set(ids)


@DRAWN
def test_nothing_in_a_picture_reaches_beyond_it(draw: Callable[..., str]) -> None:
    svg = draw()
    assert "<style" not in svg
    assert "<metadata" not in svg
    assert re.findall(r"https?://[^\"]*", svg) == ["http://www.w3.org/2000/svg"]


@DRAWN
def test_the_same_input_gives_the_same_bytes_whatever_the_users_style(
    draw: Callable[..., str],
) -> None:
    import matplotlib as mpl

    plain = draw()
    with mpl.rc_context({"font.size": 40, "axes.grid": True, "svg.fonttype": "path"}):
        assert draw() == plain


def test_the_budget_names_every_part_and_both_limits() -> None:
    written = words(draw_budget())
    for text in ("shared memory", "4 GB", "sorts and hashes", "8 GB", "processes", "512 MB",
                 "ceiling 14 GB", "memory 16 GB", "worst case"):  # fmt: skip
        assert text in written


def test_bars_end_where_their_sizes_say() -> None:
    """By hand: the axis runs from 152 (0.2 of 760) over 592.8 units for 16 GiB x 1.005."""
    edges = sorted(
        float(x)
        for path in ElementTree.fromstring(draw_budget()).iter(f"{SVG}path")
        if "--part-" in path.get("style", "")
        for x in re.findall(r"[ML] ([\d.]+)", path.get("d", ""))
    )
    unit = 592.8 / (16 * 1.005)
    assert sorted({round(edge, 1) for edge in edges}) == [
        152.0, round(152 + 4 * unit, 1), round(152 + 12 * unit, 1), round(152 + 12.5 * unit, 1),
    ]  # fmt: skip


def test_sides_differ_in_shape_and_not_only_in_colour() -> None:
    root = ElementTree.fromstring(draw_pairs())
    outlines = {path.get("id"): path.get("d") for path in root.iter(f"{SVG}path")}

    def shapes(side: str) -> set[str | None]:
        marks = (use for use in root.iter(f"{SVG}use") if f"--{side}," in use.get("style", ""))
        return {outlines[use.get("href", "")[1:]] for use in marks}

    assert shapes("a")
    assert shapes("b")
    assert not shapes("a") & shapes("b")


def test_names_of_sides_are_text_whatever_is_in_them() -> None:
    svg = charts.pairs(replace(DUEL, name_a="<b>$x^2$</b>", name_b="größer 試"), key="pairs")
    assert "A  <b>$x^2$</b>" in words(svg)
    assert "B  größer 試" in words(svg)


def test_a_very_long_name_is_cut_to_fit_beside_the_other() -> None:
    svg = charts.pairs(replace(DUEL, name_a="x" * 60), key="pairs")
    assert "A  " + "x" * 21 + "…" in words(svg)


@pytest.mark.parametrize(
    "values", [[(1000.0, 1000.0)], [(1000.0, 1000.0)] * 3, [(5.0, 9.0 + n) for n in range(60)]]
)
def test_few_equal_and_many_blocks_can_be_drawn(values: list[tuple[float, float]]) -> None:
    blocks = [(n, a, b) for n, (a, b) in enumerate(values, 1)]
    one = replace(DUEL, blocks=blocks, ratio=1.0, low=0.0, high=float("inf"))
    written = words(charts.pairs(one, key="pairs"))
    assert {str(number) for number, _, _ in blocks} <= set(written)


def luminance(colour: str) -> float:
    """Relative luminance, by WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, two: str) -> float:
    dark, light = sorted((luminance(one), luminance(two)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_reckoned_as_the_guideline_does() -> None:
    """Published pairs: black on white 21:1; #767676 is the lightest grey that passes on white."""
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#767676", "#ffffff") == pytest.approx(4.54, abs=0.005)


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(
    ("front", "back", "least"),
    [
        *((name, "paper", 4.5) for name in ("ink", "soft", "a", "b", "limit")),
        *((name, "band", 4.5) for name in ("ink", "soft")),
        *((name, "paper", 3.0) for name in ("part-1", "part-2")),  # no text: WCAG 1.4.11
    ],
)
def test_everything_can_be_made_out_in_both_modes(
    mode: str, front: str, back: str, least: float
) -> None:
    front, back = (getattr(figures.PALETTE[name], mode) for name in (front, back))
    assert contrast(front, back) >= least
