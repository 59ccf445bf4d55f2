"""What an ignore file misses: history, logs, databases, dependencies, and secrets.

Judged by names. Only files of settings that may or may not hold a password are opened.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from mrtuner.errors import MrTunerError
from mrtuner.files import read_file
from mrtuner_image.context import Context, ContextEntry
from mrtuner_image.kinds import kind_of

What = Literal["secret", "version control", "log", "database", "dependencies", "cache"]


@dataclass(frozen=True, slots=True)
class Misplaced:
    """A file or a directory that an image seldom needs."""

    what: What
    path: str  # also the line for the ignore file
    files: int
    sent: int


#: Names of directories. Source: the tools that create them.
_DIRECTORIES: Final[dict[str, What]] = {
    ".git": "version control", ".hg": "version control", ".svn": "version control",
    ".ssh": "secret", ".aws": "secret", ".gnupg": "secret", ".kube": "secret",
    "log": "log", "logs": "log",
    "node_modules": "dependencies", ".venv": "dependencies", "venv": "dependencies",
    "bower_components": "dependencies", ".bundle": "dependencies",
    "__pycache__": "cache", ".mypy_cache": "cache", ".pytest_cache": "cache",
    ".ruff_cache": "cache", ".tox": "cache", ".gradle": "cache", ".cache": "cache",
}  # fmt: skip
#: The directory that builds of .NET fill, beside a file of one of these projects.
_BUILT: Final = "obj"
_PROJECTS: Final = (".csproj", ".fsproj", ".vbproj")
#: Files of settings that are secret only with a password or a token of their own; one that is
#: taken from a variable is none. Source: npmrc(5); Python's packaging guide, .pypirc.
_SETTINGS: Final = frozenset({".npmrc", ".pypirc"})
_PASSWORD: Final = re.compile(
    r"(?im)^\s*(\S*(_authToken|_auth|_password)\s*=|password\s*[=:])\s*(?!\"?\$\{)\S"
    r"|://[^/\s:@]*:(?!\$\{)[^/\s@]+@"
)
_TEMPLATE: Final = re.compile(r"\.(example|sample|template|dist)$")
#: Names of files; the first pattern that matches counts.
_FILES: Final[tuple[tuple[re.Pattern[str], What], ...]] = (
    (re.compile(r"\.env(\..+)?"), "secret"),
    (re.compile(r"id_(rsa|dsa|ecdsa|ed25519)"), "secret"),
    (re.compile(r"\.(pgpass|netrc|npmrc|pypirc|git-credentials|htpasswd)"), "secret"),
    (re.compile(r".*\.(pem|key|p12|pfx|jks|keystore|kdbx)"), "secret"),
    (re.compile(r".*\.tfstate(\.backup)?"), "secret"),
    (re.compile(r".*\.log(\.\d+)?(\.(gz|xz|zst))?"), "log"),
    (re.compile(r".*\.(sqlite3?|db|mdb|rdb|dump)"), "database"),
    (re.compile(r".*\.sql\.(gz|xz|zst|bz2)"), "database"),
)


def misplaced(context: Context) -> list[Misplaced]:
    """Return what the ignore file misses, secrets first, then the largest.

    A directory counts once, with what is below it; secrets in it are listed beside it.
    """
    clusters = {
        entry.path.rpartition("/")[0]
        for entry in context.entries
        if entry.path.rpartition("/")[2] == "PG_VERSION"  # a data directory of PostgreSQL
    }
    projects = {
        entry.path.rpartition("/")[0] for entry in context.entries if entry.path.endswith(_PROJECTS)
    }
    found: dict[tuple[str, What], list[ContextEntry]] = {}
    for entry in context.entries:
        for path, what in _belongs(entry, clusters, projects):
            found.setdefault((path, what), []).append(entry)
    for (path, what), entries in list(found.items()):
        is_source = what == "log" and any(kind_of(one.path) == "code" for one in entries)
        if is_source or _is_harmless(context, path, what):
            del found[path, what]
    whole = [_summed(path, what, entries) for (path, what), entries in found.items()]
    return sorted(
        (one for one in whole if one.files),
        key=lambda one: (one.what != "secret", -one.sent, one.path),
    )


def _summed(path: str, what: What, entries: Iterable[ContextEntry]) -> Misplaced:
    below = list(entries)
    files = sum(entry.kind != "directory" for entry in below)
    return Misplaced(what, path, files, sum(entry.archived for entry in below))


def _is_harmless(context: Context, path: str, what: What) -> bool:
    """Whether a file of settings, though named like one with a password, has none."""
    if what != "secret" or posixpath.basename(path) not in _SETTINGS:
        return False
    try:
        text = read_file(context.root / path)
    except MrTunerError:
        return False
    return _PASSWORD.search(text) is None


def _belongs(entry: ContextEntry, clusters: set[str], projects: set[str]) -> list[tuple[str, What]]:
    """The paths with which an entry is counted: the outermost such directory, or itself."""
    names: list[tuple[str, What]] = []
    for path in entry.directories:
        above, _, name = path.rpartition("/")
        what = "database" if path in clusters else _DIRECTORIES.get(name)
        if name == _BUILT and above in projects:
            what = "cache"
        if what is not None:
            names.append((path, what))
            break
    if entry.kind != "directory":
        own = _of_file(posixpath.basename(entry.path))
        if own is not None and (not names or own == "secret" != names[0][1]):
            names.append((entry.path, own))
    return names


def _of_file(name: str) -> What | None:
    if _TEMPLATE.search(name):
        return None
    return next((what for pattern, what in _FILES if pattern.fullmatch(name)), None)
