"""Public incidents: the published cause is found, and nothing else is reported as a ceiling."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from incidents import INCIDENTS, Incident, gp2_at_100_iops

from mrtuner.limits import Limits, limits
from mrtuner.limits.document import limits_document
from mrtuner.limits.text import lines

NAMED = [pytest.param(make, id=make.__name__) for make in INCIDENTS]


def told(incident: Incident) -> Limits:
    return limits(incident.series, class_name=incident.class_name, storage=incident.storage)


@pytest.mark.parametrize("make", NAMED)
def test_a_public_incident_is_called_by_its_name(make: Callable[[], Incident]) -> None:
    incident = make()
    found = told(incident)
    text = "\n".join(lines(limits_document(found))).replace(",", "")
    for word in incident.says:
        assert word in text
    names = {one.ceiling.name if one.ceiling else "unknown" for one in found.pegged}
    assert names.isdisjoint(incident.never)
    if incident.says:
        assert any(abs(one.plateau.level / incident.level - 1) < 0.03 for one in found.pegged)
    else:
        assert found.pegged == ()


def test_the_way_out_of_a_small_gp2_is_gp3_of_its_size() -> None:
    """3,000 IOPS, thirty times the limit that it was at."""
    found = told(gp2_at_100_iops())
    assert any("gp3:20GB,3000iops,125MiB/s" in line for line in found.advice)
