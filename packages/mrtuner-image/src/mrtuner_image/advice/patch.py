"""Changes to texts as one unified diff, for `git apply` and `patch -p1`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import unified_diff


def unified(changes: Mapping[str, tuple[str | None, str]]) -> str:
    r"""Return the patch from each file's first text to its second; None: a new file.

    There is no line `diff --git`: with one, git would take the names from the top of the repository
    instead of the directory in which it is called.

    >>> print(unified({"a": (None, "x\n")}), end="")
    --- /dev/null
    +++ b/a
    @@ -0,0 +1 @@
    +x
    """
    return "".join(line for name in sorted(changes) for line in _lines(name, *changes[name]))


def _lines(name: str, old: str | None, new: str) -> Iterator[str]:
    end = "\t" if " " in name else ""  # tells where a name with a space ends
    before = f"a/{name}{end}" if old is not None else "/dev/null"
    for line in unified_diff(_rows(old or ""), _rows(new), before, f"b/{name}{end}"):
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _rows(text: str) -> list[str]:
    """Split after each line feed only; str.splitlines would split at other characters too."""
    rows = [f"{row}\n" for row in text.split("\n")]
    last = rows.pop().removesuffix("\n")
    return [*rows, last] if last else rows
