"""A page that cannot be written is known before the work it would tell of."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from mrtuner.cli import main
from mrtuner.cli.needs import packages, page
from mrtuner.errors import MissingPart, UsageError

#: Nobody answers there: whoever came so far would fail otherwise.
NOBODY = "postgresql://nobody@127.0.0.1:9/none"


@pytest.mark.parametrize(
    "arguments",
    [
        ["cpu", "--report"],
        ["prove", NOBODY, "--yes", "--report"],
        ["vacuum", NOBODY, "--watch", "15m", "--report"],
        ["limits", NOBODY, "--watch", "10m", "-o"],
        ["failover", "rehearse", NOBODY, "--trigger", "true", "--yes", "--report"],
        ["failover", "lab", "--scenario", "crash", "--report"],
        ["rds", "maintenance", "rehearse", "shop", "--dsn", NOBODY, "--yes", "--report"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_a_page_in_a_directory_that_is_not_there_is_refused_before_anything_is_done(
    arguments: list[str],
) -> None:
    done = CliRunner().invoke(main, [*arguments, "/no/such/page.html"])
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "error: there is no directory /no/such",
        "HINT: Make it, or name another file.",
    ]


def test_no_page_needs_nothing_and_a_file_in_a_directory_of_ours_is_enough(tmp_path: Path) -> None:
    page(None)
    page(tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        page(tmp_path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_a_directory_of_somebody_else_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="cannot write"):
        page(tmp_path / "page.html")


def test_packages_that_are_not_there_are_named_with_what_brings_them() -> None:
    with pytest.raises(MissingPart, match=r"not installed: nothing_like_it$") as refused:
        packages("json", "nothing_like_it")
    assert refused.value.hint == "Run: pip install 'mrtuner[prove,report]'."
