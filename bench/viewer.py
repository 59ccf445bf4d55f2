"""How fast the viewer answers, over HTTP, on a year of one instance: `make bench-viewer`.

Every screen is asked for its default view (the last hour), and for a day, a week, a month and a
year, in random order, from `mrtuner serve` in a process of its own: median and 95th percentile in
milliseconds, the answer read to its end. `first` is the default view when nobody has asked for six
seconds: the store is opened again, as for somebody who comes to the page.

    python bench/viewer.py --rounds 3 --days 60       a quick look
    python bench/viewer.py --against ../before        in turn with another checkout, as ratios
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

import viewer_year

#: What a period of the page's menu is called in the address.
PERIODS = {"default": "", "day": "since=24h", "week": "since=7d", "month": "since=30d",
           "year": "since=365d"}  # fmt: skip
#: More than the 5 s after which an unused store is closed [s].
IDLE = 6.0
GOAL = 150.0
#: Further parameters of a screen: comparing needs something to compare with.
MORE = {"compare": "compare=1d"}


def say(text: str) -> None:
    """Print one line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Served:
    """A running viewer."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        assert parts.hostname is not None
        self.connection = HTTPConnection(parts.hostname, parts.port, timeout=600)

    def get(self, path: str, encoding: str = "gzip") -> bytes:
        """Return the body of the answer to a path; exit unless its status is 200."""
        self.connection.request("GET", path, headers={"Accept-Encoding": encoding})
        answer = self.connection.getresponse()
        body = answer.read()
        self.connection.close()  # The server closes one that is idle for 30 s.
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {body[:500]!r}")
        return body

    def timed(self, path: str) -> float:
        """Return how long the answer to a path takes [ms]."""
        begin = time.perf_counter()
        self.get(path)
        return 1000 * (time.perf_counter() - begin)

    def screens(self) -> list[str]:
        """The names of all screens."""
        return [one["name"] for one in json.loads(self.get("/api/fleet", "identity"))["screens"]]


@contextmanager
def serving(directory: Path, checkout: Path | None = None) -> Iterator[Served]:
    """Run `mrtuner serve` on a store, from this checkout or another."""
    source = (checkout or Path(__file__).parents[1]) / "src"
    command = [sys.executable, "-c", "from mrtuner.cli import main; main()", "serve", "--dir",
               str(directory), "--port", "0", "--json"]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(source)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if line.rstrip() == "}":
                break
        try:
            yield Served(json.loads("".join(lines))["address"])
        finally:
            process.send_signal(signal.SIGTERM)


def views(screens: Sequence[str]) -> dict[tuple[str, str], str]:
    """Return the path of each screen and period, and of the page of all instances."""
    paths = {("fleet", "default"): "/api/fleet"}
    for screen in screens:
        for period, query in PERIODS.items():
            asked = "&".join(part for part in (query, MORE.get(screen)) if part)
            paths[screen, period] = f"/api/screens/{screen}?{asked}"
    return paths


Times = dict[tuple[str, str], list[float]]


def measure(sides: Sequence[Served], rounds: int, idle: int, periods: set[str]) -> list[Times]:
    """Return the times of each side [ms]; the sides take turns in random order."""
    paths = {key: path for key, path in views(sides[0].screens()).items() if key[1] in periods}
    screens = sorted({screen for screen, _ in paths})
    found: list[Times] = [defaultdict(list) for _ in sides]
    chance = random.Random(14)
    for number in range(rounds + 1):
        for key in chance.sample(list(paths), len(paths)):
            for place in chance.sample(range(len(sides)), len(sides)):
                took = sides[place].timed(paths[key])
                if number:  # The first round fills the caches of the kernel.
                    found[place][key].append(took)
    for _ in range(idle):
        for screen in chance.sample(screens, len(screens)):
            for place in chance.sample(range(len(sides)), len(sides)):
                time.sleep(IDLE)
                found[place][screen, "first"].append(sides[place].timed(paths[screen, "default"]))
    return found


def percentile(values: Sequence[float], share: float) -> float:
    """The least value that this share of all does not exceed (nearest rank)."""
    rank = math.ceil(round(share * len(values), 6))  # 0.95 * 20 is slightly above 19
    return sorted(values)[max(0, rank - 1)]


def table(times: Times) -> Iterator[str]:
    """p50 and p95 of each screen and period."""
    periods = [name for name in ("first", *PERIODS) if any(key[1] == name for key in times)]
    yield "| Screen | " + " | ".join(f"{name} p50 / p95" for name in periods) + " |"
    yield "|:--|" + "--:|" * len(periods)
    for screen in dict.fromkeys(screen for screen, _ in times):
        cells = [
            f"{median(took):.0f} / {percentile(took, 0.95):.0f}" if took else ""
            for period in periods
            for took in [times.get((screen, period), [])]
        ]
        yield f"| {screen} | {' | '.join(cells)} |"


def verdict(times: Times) -> str:
    """Return the slowest default view, with the goal."""
    slowest, key = max(
        (percentile(took, 0.95), key) for key, took in times.items() if key[1] in PERIODS
        and key[1] == "default"
    )  # fmt: skip
    return f"slowest default view: {key[0]}, p95 {slowest:.0f} ms (goal {GOAL:.0f} ms)"


def ratios(here: Times, there: Times) -> Iterator[str]:
    """Medians of this checkout divided by those of the other."""
    periods = [name for name in ("first", *PERIODS) if any(key[1] == name for key in here)]
    yield "| Screen | " + " | ".join(periods) + " |"
    yield "|:--|" + "--:|" * len(periods)
    for screen in dict.fromkeys(screen for screen, _ in here):
        cells = [
            f"{median(here[key]) / median(there[key]):.2f}" if key in here else ""
            for period in periods
            for key in [(screen, period)]
        ]
        yield f"| {screen} | {' | '.join(cells)} |"


def main(arguments: Sequence[str]) -> int:
    """Generate the store where it is not there yet, and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keep", type=Path, help="where the store is, or is made")
    parser.add_argument("--days", type=int, default=365, help="how long it was recorded")
    parser.add_argument("--rounds", type=int, default=20, help="how often each view is asked for")
    parser.add_argument("--idle", type=int, default=3, help="how often after nobody asked")
    parser.add_argument("--periods", nargs="+", choices=PERIODS, default=list(PERIODS))
    parser.add_argument("--against", type=Path, help="another checkout, in turn with this one")
    given = parser.parse_args(arguments)
    keep = given.keep or Path(__file__).parents[1] / ".cache" / f"viewer-{given.days}d"
    begin = time.perf_counter()
    viewer_year.build(keep, given.days, say)
    say(f"{keep}, ready in {time.perf_counter() - begin:.0f} s")
    for line in viewer_year.described(keep):
        say(line)
    with ExitStack() as stack:
        checkouts = [None, *([given.against] if given.against else [])]
        sides = [stack.enter_context(serving(keep, one)) for one in checkouts]
        found = measure(sides, given.rounds, given.idle, set(given.periods))
    for name, times in zip(("this checkout", str(given.against)), found, strict=False):
        say(f"\n{name}\n")
        for line in table(times):
            say(line)
        say("\n" + verdict(times))
    if given.against:
        say(f"\nmedians here, divided by those of {given.against}\n")
        for line in ratios(*found):
            say(line)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
