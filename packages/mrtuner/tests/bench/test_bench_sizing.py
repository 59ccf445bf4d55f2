"""How large and how long a proof is by default."""

from __future__ import annotations

from mrtuner.bench.plan.sizing import size_for
from mrtuner.units import GiB, MiB


def test_as_much_data_as_the_server_has() -> None:
    """By hand: 3,072 MB at 15 MB each."""
    size = size_for(memory=16 * GiB, cpus=4, data=3 * GiB, disk_free=None, reads_only=False)
    assert (size.scale, size.clients, size.seconds) == (204, 16, 60)
    assert size.why["scale"] == "scale 204: as much data as the server has (3 GB)"


def test_an_empty_server_gets_an_eighth_of_memory() -> None:
    """By hand: 16,384 / 8 / 15 = 136.5."""
    size = size_for(memory=16 * GiB, cpus=2, data=30 * MiB, disk_free=None, reads_only=True)
    assert (size.scale, size.clients, size.seconds) == (136, 8, 20)


def test_no_more_than_the_disk_bears() -> None:
    """By hand: 6,000 MB / 4 / 15 = 100."""
    size = size_for(memory=None, cpus=None, data=9 * GiB, disk_free=6000 * MiB, reads_only=False)
    assert size.scale == 100
    assert "a quarter of the free disk" in size.why["scale"]


def test_nothing_known_is_the_least_that_tells_anything() -> None:
    size = size_for(memory=None, cpus=None, data=None, disk_free=None, reads_only=False)
    assert (size.scale, size.clients) == (50, 8)
