"""Sizes as people write them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mrtuner.errors import BadValue
from mrtuner.units import (
    memory_unit,
    parse_bytes,
    parse_duration,
    parse_rate,
    parse_share,
    pretty_bytes,
    pretty_duration,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16GB", 17_179_869_184),
        ("16 GiB", 17_179_869_184),
        ("16Gi", 17_179_869_184),  # as Kubernetes writes it
        ("512Mi", 536_870_912),
        ("64Ki", 65_536),
        ("1.5Ti", 1_649_267_441_664),
        ("512mb", 536_870_912),
        ("1.5G", 1_610_612_736),
        ("64kB", 65_536),
        ("2TB", 2_199_023_255_552),
        ("100B", 100),
        (4096, 4096),
    ],
)
def test_sizes_are_read_in_powers_of_1024(text: str | int, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text", ["16", "16 parsecs", "16i", "", "GB", "-1GB", "0GB", "0.00B", 0, -5, "1e3GB"]
)
def test_what_is_no_size_is_refused_with_a_hint(text: str | int) -> None:
    with pytest.raises(BadValue) as caught:
        parse_bytes(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (100, "100 B"),
        (65_536, "64 kB"),
        (968_884_224, "924 MB"),
        (1_610_612_736, "1.5 GB"),
        (4_398_046_511_104, "4 TB"),
    ],
)
def test_sizes_are_written_with_three_figures(size: int, text: str) -> None:
    assert pretty_bytes(size) == text


def test_base_units_of_pg_settings() -> None:
    assert memory_unit("8kB") == 8192
    assert memory_unit("MB") == 1_048_576
    assert memory_unit("ms") is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30), ("15m", 900), ("15min", 900), ("1.5 h", 5400), ("2d", 172_800),
        ("200ms", 0.2), ("2w", 1_209_600), ("45", 45), (60, 60), (0.5, 0.5),
    ],
)  # fmt: skip
def test_durations_are_read_with_minutes_and_weeks_as_people_write_them(
    text: str | float, seconds: float
) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("read", "text", "mended"),
    [
        (parse_bytes, "16,5GB", "16.5GB"),
        (parse_bytes, " 1,5 TB", "1.5 TB"),
        (parse_duration, "1,5h", "1.5h"),
    ],
)
def test_a_decimal_comma_is_named_with_what_to_write(
    read: Callable[[str], float], text: str, mended: str
) -> None:
    with pytest.raises(BadValue, match="it has a comma") as refused:
        read(text)
    assert refused.value.hint == f"Write a point: {mended}."


@pytest.mark.parametrize("text", ["1,000,000kB", "1,GB", "a,b"])
def test_another_comma_is_no_decimal_one(text: str) -> None:
    with pytest.raises(BadValue, match="cannot read") as refused:
        parse_bytes(text)
    assert "comma" not in refused.value.message


@pytest.mark.parametrize("text", ["nan", "inf", "-inf%"])
def test_a_share_is_finite(text: str) -> None:
    with pytest.raises(BadValue, match="is not a share"):
        parse_share(text)


@pytest.mark.parametrize(
    "text", ["", "soon", "5 parsecs", "-1s", "0", "0min", "1e3s", "15M", "9" * 400 + "d"]
)
def test_what_is_no_duration_is_refused_with_a_hint(text: str) -> None:
    with pytest.raises(BadValue) as caught:
        parse_duration(text)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.25, "0.25 s"), (90, "90 s"), (120, "2 min"), (5400, "90 min"), (172_800, "2 d")],
)
def test_durations_are_written_in_the_largest_fitting_unit(seconds: float, text: str) -> None:
    assert pretty_duration(seconds) == text


@pytest.mark.parametrize(
    ("text", "a_second"),
    [("400/s", 400), ("24000/min", 400), ("24000 / m", 400), ("0.5/ms", 500), ("7200/h", 2),
     (3, 3), (0.5, 0.5)],
)  # fmt: skip
def test_rates_are_read_a_second(text: str | float, a_second: float) -> None:
    assert parse_rate(text) == a_second


@pytest.mark.parametrize(
    "text",
    ["400", "0/s", 0, -1, "-400/s", "400/fortnight", "400/", "/s", "1e3/s", "", "nan/s",
     float("nan"), float("inf")],
)  # fmt: skip
def test_what_is_no_rate_is_refused_with_a_hint(text: str | float) -> None:
    with pytest.raises(BadValue) as caught:
        parse_rate(text)
    assert "400/s" in (caught.value.hint or "")
