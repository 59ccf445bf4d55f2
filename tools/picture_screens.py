"""Take a picture of every screen of the viewer for the docs, light and dark: `make pictures`, or

    python tools/picture_screens.py [SCREEN …]

It writes the example's history (`mrtuner history example`), serves it, opens each screen in a
headless Chromium and writes docs/images/viewer/SCREEN-light.png and SCREEN-dark.png; some screens
also in the size of a phone. The page must have been built (`make page`). The same page gives the
same pictures, because history and clock are fixed; fonts are those of this machine.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from fetch_browser import NAMES, fetched

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "images" / "viewer"
DESK: Final = {"width": 1400, "height": 875}
#: Tall enough to show the whole chart with the ceilings of throughput.
TALL: Final = {"width": 1400, "height": 1150}
PHONE: Final = {"width": 390, "height": 780}
SCHEMES: Final = ("light", "dark")
#: Numbers of colours in a picture: the most frequent ones unchanged (backgrounds, areas and text),
#: and further ones for the shades of thin lines.
_FREQUENT, _BETWEEN = 64, 64
_LARGEST: Final = 90_000  # bytes
#: How long to wait for a screen on a busy machine [ms].
_PATIENCE: Final = 120_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """A picture: its name, what the page's address says, and the size of the window."""

    name: str
    fragment: str
    window: dict[str, int]
    page: str = ""


def shots() -> Iterator[Shot]:
    """Every screen over the example's Monday, or over a period in which it shows more."""
    from mrtuner.history.example.statements import LOADS
    from mrtuner.limits.examples.upgrade import START
    from mrtuner.web.screens import SCREENS

    def over(screen: str, begin: datetime, end: datetime, more: str = "") -> str:
        return f"screen={screen}&from={int(begin.timestamp())}&to={int(end.timestamp())}{more}"

    day = timedelta(days=1)
    monday = (START + timedelta(hours=6), START + timedelta(hours=20))
    wednesday = (START + 2 * day + timedelta(hours=11), START + 2 * day + timedelta(hours=17))
    moment = START + timedelta(hours=14, seconds=15)
    periods = {
        "moment": over("moment", moment - timedelta(seconds=30), moment + timedelta(seconds=30)),
        "compare": over("compare", *wednesday, "&compare=1d"),
        "headroom": over("headroom", START, START + day),
        "vacuum": over("vacuum", START, START + 3 * day),
        "wal": over("wal", START, START + 3 * day),
        "connections": over("connections", START + day, START + 2 * day),
        "changes": over("changes", START, START + 3 * day),
        "replication": over("replication", START + day, START + 3 * day),
    }
    yield Shot(name="fleet", fragment="", window=DESK)
    for name in SCREENS:
        window = TALL if name == "headroom" else DESK
        yield Shot(name=name, fragment=periods.get(name, over(name, *monday)), window=window)
    one = f"&statement={LOADS[0].query_id}"
    yield Shot(
        name="statement", window=DESK, fragment=over("statements", START, START + 3 * day, one)
    )
    yield Shot(
        name="tuner", window=DESK, page="tuner.html", fragment="memory=64GB&cpus=8&storage=ssd"
    )
    yield Shot(name="tune", window=DESK, page="tuner.html?instance=shop-prod", fragment="")
    for name in ("load", "statements"):
        yield Shot(name=f"{name}-phone", fragment=over(name, *monday), window=PHONE)


def main(names: Sequence[str]) -> None:
    """Take the pictures of these screens, or of all."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, NAMES)), None)
    chromium = chromium or (str(fetched()) if fetched().is_file() else None)
    if chromium is None:
        sys.exit("error: no chromium\nHINT: apt-get install chromium")
    TARGET.mkdir(parents=True, exist_ok=True)
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for shot in shots():
            if names and shot.name not in names:
                continue
            for scheme in SCHEMES:
                picture = small(taken(browser, address, shot, scheme))
                path = TARGET / f"{shot.name}-{scheme}.png"
                path.write_bytes(picture)
                sys.stdout.write(f"{path.relative_to(ROOT)}: {len(picture):,} bytes\n")
                if len(picture) > _LARGEST:
                    sys.exit(f"error: {path.name} is too large for the repository")
        browser.close()


@contextmanager
def served() -> Iterator[str]:
    """Serve the example; yield the viewer's address."""
    program = [sys.executable, "-c", "from mrtuner.cli import main; main()"]
    with TemporaryDirectory() as place:
        options = ["--dir", "example"]
        subprocess.run([*program, "history", "example", *options], cwd=place, check=True,
                       stdout=subprocess.DEVNULL)  # fmt: skip
        with subprocess.Popen(
            [*program, "serve", *options, "--port", "0", "--json"], cwd=place,
            stdout=subprocess.PIPE, text=True, env=os.environ | {"NO_COLOR": "1"},
        ) as process:  # fmt: skip
            assert process.stdout is not None
            try:
                yield str(json.loads(_document(process.stdout))["address"])
            finally:
                process.terminate()


def _document(lines: Any) -> str:
    """The first document: the lines up to one that is only a closing brace."""
    found = []
    for line in lines:
        found.append(line)
        if line.rstrip() in {"}", "{}"}:
            break
    return "".join(found)


def taken(browser: Any, address: str, shot: Shot, scheme: str) -> bytes:
    """What the window shows once everything is drawn, as PNG."""
    from mrtuner.limits.examples.upgrade import DAYS, START

    context = browser.new_context(
        viewport=shot.window, color_scheme=scheme, reduced_motion="reduce", timezone_id="UTC",
        locale="en-GB",
    )  # fmt: skip
    page = context.new_page()
    page.set_default_timeout(_PATIENCE)
    page.clock.set_fixed_time((START + timedelta(days=DAYS, seconds=5)).astimezone(UTC))
    page.route("**/api/fleet", without_place)
    page.goto(f"{address}{shot.page}#{shot.fragment}")
    page.wait_for_selector("main h1, form")
    page.wait_for_load_state("networkidle")
    picture: bytes = page.screenshot(animations="disabled")
    context.close()
    return picture


def without_place(route: Any) -> None:
    """Replace the store's directory in the answer, to hide its path on this machine."""
    told = route.fetch()
    route.fulfill(response=told, json=told.json() | {"directory": "example"})


def small(picture: bytes) -> bytes:
    """The same picture with a palette, in which white stays white."""
    import numpy as np
    from PIL import Image

    image = Image.open(io.BytesIO(picture)).convert("RGB")
    pixels = np.asarray(image).reshape(-1, 3)
    colours, place, count = np.unique(pixels, axis=0, return_inverse=True, return_counts=True)
    frequent = colours[np.argsort(-count)[:_FREQUENT]]
    between = image.quantize(_BETWEEN, method=Image.Quantize.MAXCOVERAGE).getpalette() or []
    palette = np.vstack([frequent, np.array(between, dtype=np.uint8).reshape(-1, 3)])
    distance = ((colours[:, None, :].astype(int) - palette[None].astype(int)) ** 2).sum(axis=2)
    nearest = distance.argmin(axis=1).astype(np.uint8)
    reduced = Image.fromarray(nearest[place.reshape(-1)].reshape(image.height, image.width))
    reduced.putpalette(palette.astype(np.uint8).tobytes())
    found = io.BytesIO()
    reduced.save(found, "PNG", optimize=True)
    return found.getvalue()


if __name__ == "__main__":
    main(sys.argv[1:])
