"""docs/architecture.md lists every package and top-level module, and all that it names exists."""

from __future__ import annotations

import ast
import re
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "packages"
CORE = PACKAGES / "mrtuner/src/mrtuner"
#: What places on the plan are relative to: in the core its rooms, elsewhere the package.
HOUSES = [CORE, *(one for one in sorted(PACKAGES.glob("*/src")) if one != CORE.parent)]
PLAN = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_every_room_is_on_the_plan() -> None:
    rooms = {path.parent.name for path in CORE.glob("*/__init__.py")}
    assert rooms
    assert {room for room in rooms if f"{room}/" not in PLAN} == set()


def test_every_module_of_the_ground_floor_is_on_the_plan() -> None:
    modules = {path.stem for path in CORE.glob("*.py")} - {"__init__", "__main__"}
    assert modules
    assert {name for name in modules if f"`{name}`" not in PLAN} == set()


def test_nothing_is_on_the_plan_that_is_not_there() -> None:
    """Checks the folders in bold code marks, and the files in the table of questions."""
    folders = re.findall(r"\*\*`([a-z_/]+)/`\*\*", PLAN)
    places = re.findall(r"^\|.*\| `([\w./]+)` \|$", PLAN, re.MULTILINE)
    assert len(folders) > 10
    assert len(places) >= 20
    assert [name for name in folders if not any((one / name).is_dir() for one in HOUSES)] == []
    assert [name for name in places if not any((one / name).is_file() for one in HOUSES)] == []


def _place(path: Path) -> str:
    """A file as the plan names it."""
    house = next(one for one in HOUSES if path.is_relative_to(one))
    return path.relative_to(house).as_posix()


def _names() -> dict[str, str]:
    """Map each file to its path and, for Python, the names of its functions and classes."""
    found = {}
    for path in (path for house in HOUSES for path in house.rglob("*")):
        if path.suffix in {".py", ".sql", ".json"}:
            declared = re.findall(
                r"^\s*(?:async )?(?:def|class) (\w+)",
                path.read_text(encoding="utf-8"),
                re.MULTILINE,
            )
            relative = _place(path)
            found[relative] = " ".join([relative, *declared]).lower()
    return found


def test_twenty_things_and_more_are_found_by_names_alone() -> None:
    """The words must come from the description: a reader who searches knows no others."""
    _, _, section = PLAN.partition("## Found by names alone")
    rows = re.findall(r"^\| (.+) \| ([\w ]+) \| `([\w./]+)` \|$", section, re.MULTILINE)
    assert len(rows) >= 20
    names = _names()
    for thing, words, place in rows:
        searched = words.lower().split()
        assert all(word in thing.lower() for word in searched), thing
        hits = [path for path, text in names.items() if all(word in text for word in searched)]
        assert place in hits, thing
        assert len(hits) <= 10, (thing, hits)


def test_scripts_outside_of_the_packages_import_modules_that_exist() -> None:
    """No type checker reads docs and examples: a module that was renamed would be missed."""
    missing = [
        f"{path.relative_to(ROOT)}: {node.module}"
        for place in ("bench", "docs", "examples")
        for path in sorted((ROOT / place).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module
        if re.match(r"(mrtuner|rdstune)", node.module)
        if find_spec(node.module) is None
    ]
    assert missing == []
