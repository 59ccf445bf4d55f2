"""Two equal variants on a real server: `mrtuner bench` may call hardly any difference."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from servers import binaries

SCRIPT = Path(__file__).parents[4] / "bench" / "same.py"


@pytest.mark.quiet
@pytest.mark.timeout(7200)
def test_of_twenty_plans_without_a_difference_two_at_most_call_one() -> None:
    """At 5 % each, three or more of twenty come up once in 13 times, by the binomial; the gates
    and the rule of equivalence leave fewer."""
    binaries(18)
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, text=True, check=False
    )
    sys.stdout.write(done.stdout)
    called = re.search(r"^20 plans of two equal variants: (\d+) called", done.stdout, re.MULTILINE)
    assert called, done.stderr
    assert int(called[1]) <= 2
