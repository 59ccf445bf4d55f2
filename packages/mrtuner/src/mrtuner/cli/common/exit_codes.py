"""Exit codes of commands that do not end with an error; errors carry their own (mrtuner.errors)."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
FAILED: Final = 1  # already reported, or failed only in part
FOUND: Final = 3  # --check, or a command called check, found something to do
WORSE: Final = 5  # measured, and worse
UNFINISHED: Final = 6  # waiting for others, or a server ended a watch; run it again
INTERRUPTED: Final = 130

#: For the end of a help text.
EXPLAINED: Final = """\b
Exit codes: 0 done, 1 failed, 2 usage, 3 a check found something to do, 4 refused
as unsafe, 5 measured worse, 6 unfinished, run it again, 130 interrupted.
"""
