"""How a command ends, where no error says it: errors carry a code of their own (mrtuner.errors)."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1  # told already, or only in part
FOUND: Final = 3  # --check found something to do, or a command called check; no other ends so
WORSE: Final = 5  # measured, and worse
UNFINISHED: Final = 6  # it waits for others, or a server ended a watch; run it again
INTERRUPTED: Final = 130

#: For the end of a help text.
EXPLAINED: Final = """\b
Exit codes: 0 done, 1 failed, 2 usage, 3 a check found something to do, 4 refused
as unsafe, 5 measured worse, 6 unfinished, run it again, 130 interrupted.
"""
