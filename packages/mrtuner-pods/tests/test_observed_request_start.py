"""Waiting in front of the application, from X-Request-Start in the forms that proxies write."""

from __future__ import annotations

import pytest

from mrtuner.errors import BadValue
from mrtuner_pods.observed import PodsMeasuredWaiting, waited

#: 2026-11-24 00:00 UTC.
AT = 1_795_478_400


def log(form: str, received: str, waits: list[float]) -> str:
    """One line per request, a second apart: the header in one form, the receipt in another."""
    lines = []
    for number, wait in enumerate(waits):
        sent = AT + number + 0.125
        values = {"s": sent, "ms": sent * 1e3, "us": sent * 1e6, "ns": sent * 1e9}
        got = sent + wait
        clock = {"s": f"{got:.6f}", "ms": f"{got * 1e3:.0f}", "iso": _iso(number, 0.125 + wait)}
        lines.append(f"{form.format(**values)} {clock[received]}")
    return "\n".join(lines)


def _iso(number: int, rest: float) -> str:
    whole, left = divmod(round((number + rest) * 1e6), 1_000_000)
    return f"2026-11-24T00:{whole // 60:02d}:{whole % 60:02d}.{left:06d}Z"


#: By hand: of 300 requests 280 wait 10 ms and 20 wait 200 ms.
WAITS = [0.010] * 280 + [0.200] * 20


def found(text: str) -> PodsMeasuredWaiting:
    seen = waited(text, "log").waited
    assert seen is not None
    return seen


@pytest.mark.parametrize(
    "form",
    ["t={s:.3f}", "{s:.3f}", "t={ms:.0f}", "{ms:.0f}", "t={us:.0f}", "{us:.0f}", "t={ns:.0f}",
     "{ns:.0f}", 'GET / 200 "t={ms:.0f}"', "x_request_start=t={us:.0f} at="],
)  # fmt: skip
@pytest.mark.parametrize("received", ["s", "ms", "iso"])
def test_every_unit_is_read(form: str, received: str) -> None:
    seen = found(log(form, received, WAITS))
    assert seen.count == 300
    assert seen.mean == pytest.approx((280 * 0.010 + 20 * 0.200) / 300, abs=0.001)
    assert seen.p50 == pytest.approx(0.010, abs=0.001)
    assert seen.p95 == pytest.approx(0.200, abs=0.001)


def test_a_proxy_whose_clock_is_ahead_is_named_and_its_lead_is_added() -> None:
    seen = waited(log("t={us:.0f}", "s", [wait - 0.050 for wait in WAITS]), "log")
    assert seen.waited is not None
    assert seen.waited.p50 == pytest.approx(0.0, abs=0.001)
    assert seen.waited.p95 == pytest.approx(0.190, abs=0.001)
    assert "280 of 300 headers are in the future, by up to 40 ms" in seen.warnings[0]


def test_a_wait_that_nobody_is_spared_may_be_the_clocks() -> None:
    seen = waited(log("t={ms:.0f}", "ms", [wait + 0.5 for wait in WAITS]), "log")
    assert "either all of them queue, or the clocks differ" in seen.warnings[0]


def test_an_aws_load_balancer_tells_whole_seconds() -> None:
    lines = [
        f"Root=1-{AT + number:08x}-bd862e3fe1be46a994272793 {AT + number + 0.5:.3f}"
        for number in range(300)
    ]
    seen = waited("\n".join(lines), "log")
    assert seen.waited is not None
    assert seen.waited.p50 == pytest.approx(0.5)
    assert any("times are in steps of 1 s" in text for text in seen.warnings)


def test_lines_of_other_kinds_are_left_out() -> None:
    text = log("t={ms:.0f}", "ms", WAITS).replace("\n", "\nstarted\n", 100)
    assert found("# of a day\n\n" + text).count == 300


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        ("", "0 requests, too few", "200 or more"),
        ("t=1795478400.5 1795478400.6\n" * 199, "199 requests, too few", "200 or more"),
        ("t=9795478400.5 1795478400.6\n", "line 1: 9795478400.5 is not a time", "as the proxy"),
        ("t=1795478400.5 2026-13-45T00:00:00Z\n", "line 1: '2026-13-45T00:00:00Z' is not a time",
         "2026-11-24T"),
        ("GET /\n" * 10 + "t=1795478400.5 1795478400.6\n", "10 of 11 lines lack the", "each line"),
        ("t=1795478400.5 2026-11-24T02:00:00+00:00\n" * 200, "are up to 7,200 s away", "time zone"),
    ],
)  # fmt: skip
def test_what_tells_nothing_is_refused_with_a_hint(text: str, said: str, hint: str) -> None:
    with pytest.raises(BadValue) as refused:
        waited(text, "log")
    assert said in refused.value.message
    assert hint in (refused.value.hint or "")
