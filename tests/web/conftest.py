"""A viewer of the hour of `history_story`, for every test of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from history_story import story
from served import Viewer, serving

from mrtuner.web.app import STATIC


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of that hour."""
    directory = tmp_path_factory.mktemp("recorded")
    story(directory)
    return directory


@pytest.fixture(scope="session")
def viewer(recorded: Path) -> Iterator[Viewer]:
    """Its viewer."""
    if not (STATIC / "index.html").is_file():
        pytest.skip("the page is not built: make page")
    with serving(recorded) as found:
        yield found
