"""Links lead somewhere, and the site builds without a warning."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_pages import DOCS, ROOT, all_pages, name_of

_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)|(?:src|srcset)=\"(?P<file>[^\"]+)\"")
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
#: Paths on the author's machine, which must not be in a page.
PRIVATE = (f"{ROOT}/", f"{Path.home()}/")


def anchors(page: Path) -> set[str]:
    """The headings as links name them: lower case, words joined by hyphens, signs dropped."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#{1,3} (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_every_link_inside_leads_somewhere(page: Path) -> None:
    for match in _LINK.finditer(_FENCE.sub("", page.read_text(encoding="utf-8"))):
        target = match["target"] or match["file"]
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), target


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_no_page_names_a_path_of_the_machine_that_it_was_written_on(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert [name for name in PRIVATE if name in text] == []


@pytest.mark.parametrize("page", all_pages(), ids=name_of)
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    for name in re.findall(r"`((?:tests|src)/[\w/.]+)`", page.read_text(encoding="utf-8")):
        assert (ROOT / name).exists(), name


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", DOCS, tmp_path / "html",
         "-d", tmp_path / "doctrees"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "html" / "index.html").is_file()
