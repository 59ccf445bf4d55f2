"""What tests ask of the machine goes through one module, which can hide programs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

import machine

ROOT = Path(__file__).resolve().parent.parent
TESTS = [ROOT / "conftest.py", *ROOT.glob("tests/**/*.py"), *ROOT.glob("packages/*/tests/**/*.py")]
#: The init of a guest that is emulated has a busybox of its own.
NOT_OURS = {"machine.py", "test_machine.py", "smt_guest.py"}
LOOKS = re.compile(
    r"shutil\.which|import which|skipif|/usr/sbin|\B/bin/busybox|/usr/lib/postgresql"
)


def test_nothing_else_looks_for_a_program() -> None:
    looking = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in TESTS
        if path.name not in NOT_OURS
        for found in LOOKS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert looking == []


@pytest.fixture
def hiding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, asks: None) -> pytest.MonkeyPatch:
    """Nothing is hidden yet; PATH has the programs ls, tc and pgbouncer alone."""
    for name in ("ls", "tc", "pgbouncer"):
        file = tmp_path / "bin" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"#!/bin/sh\necho {name}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv(machine.HIDE, raising=False)
    monkeypatch.setenv(machine.SHOWN, "")
    monkeypatch.delenv(machine.SHOWN)  # and once more at the end: hide() sets it
    monkeypatch.setattr(machine, "_SBIN", str(tmp_path / "sbin"))
    return monkeypatch


def test_what_is_hidden_is_found_neither_here_nor_by_the_code_under_test(
    hiding: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert machine.find("tc") == str(tmp_path / "bin/tc")
    hiding.setenv(machine.HIDE, "tc")
    machine.hide(tmp_path / "shown")
    assert machine.missing("tc") == "tc is not installed (apt-get install iproute2)"
    assert machine.missing("pgbouncer") is None
    assert subprocess.check_output(["pgbouncer"], text=True) == "pgbouncer\n"
    with pytest.raises(FileNotFoundError):
        subprocess.check_output(["tc"])


def test_all_leaves_what_every_machine_has(hiding: pytest.MonkeyPatch, tmp_path: Path) -> None:
    hiding.setenv(machine.HIDE, "all")
    machine.hide(tmp_path / "shown")
    assert [path.name for path in (tmp_path / "shown").iterdir()] == ["ls"]
    assert machine.find("pgbouncer") is None
    assert machine.debian_server(15) is None


def test_a_test_that_asks_without_saying_so_fails() -> None:
    with pytest.raises(AssertionError, match="asks for tc without the fixture asks"):
        machine.find("tc")
