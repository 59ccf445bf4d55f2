"""The kind of change that an edit of a file is, by the file's name."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, Literal

Kind = Literal["code", "dependencies", "asset", "configuration", "other"]
ChangeKind = Literal[Kind, "build argument"]

#: Files that package managers read: changing one reinstalls packages.
_MANIFESTS: Final = re.compile(
    r"requirements[\w.-]*\.(txt|in)|constraints[\w.-]*\.txt|pyproject\.toml|setup\.(py|cfg)"
    r"|Pipfile(\.lock)?|poetry\.lock|uv\.lock|environment\.ya?ml"
    r"|package(-lock)?\.json|npm-shrinkwrap\.json|yarn\.lock|pnpm-lock\.yaml"
    r"|Gemfile(\.lock)?|.*\.gemspec|composer\.(json|lock)|go\.(mod|sum)|Cargo\.(toml|lock)"
    r"|pom\.xml|build\.gradle(\.kts)?|gradle\.lockfile|mix\.(exs|lock)|packages\.lock\.json"
    r"|.*\.csproj"
)
_ENDINGS: Final[dict[Kind, str]] = {
    "code": "py pyi rb erb rake js mjs cjs ts jsx tsx vue svelte go rs java kt scala php pl lua ex "
    "exs c h cc cpp hpp cs fs swift sh bash sql html htm jinja j2 haml slim proto whl jar war",
    "asset": "css scss sass less png jpg jpeg gif svg ico webp avif woff woff2 ttf otf eot mp3 mp4 "
    "webm pdf map wasm",
    "configuration": "conf cfg ini toml yml yaml json properties env xml",
}
#: A change to several files is of the first of these kinds: usually the most expensive.
DEAREST_FIRST: Final[tuple[Kind, ...]] = (
    "dependencies", "code", "configuration", "asset", "other"
)  # fmt: skip
_KIND_OF: Final[dict[str, Kind]] = {
    ending: kind for kind, endings in _ENDINGS.items() for ending in endings.split()
}


def kind_of(path: str) -> Kind:
    """The kind of change that an edit of this file is.

    >>> [kind_of(path) for path in ("app/main.py", "Gemfile.lock", "img/x.png", "a.yml", "README")]
    ['code', 'dependencies', 'asset', 'configuration', 'other']
    """
    name = path.rpartition("/")[2]
    if _MANIFESTS.fullmatch(name):
        return "dependencies"
    return _KIND_OF.get(name.rpartition(".")[2].lower(), "other") if "." in name else "other"


def kind_of_all(paths: Iterable[str]) -> Kind:
    """The kind of a change to several files.

    >>> kind_of_all(["x.png", "main.py", "Gemfile.lock"]), kind_of_all([])
    ('dependencies', 'other')
    """
    kinds = {kind_of(path) for path in paths}
    return next((kind for kind in DEAREST_FIRST if kind in kinds), "other")
