"""Fixtures of the RDS lab: without servers, or with real PostgreSQL where values matter.

conftest.py makes them available to every test. A conftest.py of a package would hide that one,
from which tests import.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rdstune.lab import Lab

_CACHE = Path(__file__).resolve().parents[1] / ".cache" / "postgres"


@pytest.fixture(scope="session")
def _lab() -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


@pytest.fixture
def lab(_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """An empty lab without servers; the environment points every AWS client to it."""
    _lab.reset()
    lead_to(_lab, monkeypatch)
    yield _lab
    _lab.reset()


@pytest.fixture
def client(lab: Lab) -> Any:
    """A client of RDS in that lab."""
    from mrtuner.aws.session import client

    return client("rds")


@pytest.fixture
def server_lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    """A lab with a real PostgreSQL behind every instance: 18, and others that were fetched."""
    programs = {int(path.name): path / "bin" for path in _CACHE.glob("[0-9][0-9]")}
    with Lab(servers=True, programs=programs) as lab:
        lead_to(lab, monkeypatch)
        yield lab


def lead_to(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Point every AWS client to this lab through the environment."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_RDS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in lab.environment.items():
        monkeypatch.setenv(name, value)
