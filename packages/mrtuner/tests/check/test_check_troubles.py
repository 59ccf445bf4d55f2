"""Each trouble is found first or second, with its remedy; a healthy server has none."""

from __future__ import annotations

import re
from contextlib import ExitStack

import psycopg
import pytest
from conftest import NewCluster
from troubles import TROUBLES, Trouble

from mrtuner.answers import check
from mrtuner.check.report import CheckReport
from mrtuner.check.text import command
from mrtuner.postgres.cluster import Cluster

pytestmark = pytest.mark.timed


def checked(cluster: Cluster, user: str = "postgres") -> CheckReport:
    # The disk of the machine that the tests run on may be nearly full.
    return check(cluster.dsn(user=user), skip=["free-space"], memory="8GB", cpus=4, storage="ssd")


@pytest.mark.parametrize("trouble", TROUBLES, ids=lambda trouble: trouble.id)
def test_a_trouble_is_found_and_its_remedy_heals_it(
    trouble: Trouble, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(trouble.major, trouble.settings)
    with ExitStack() as stack:
        trouble.plant(cluster, stack)
        answer = checked(cluster)
        found = [one for one in answer.findings[:2] if one.id == trouble.id]
        assert found, answer.findings
        assert found[0].severity == trouble.severity
        assert re.search(trouble.says, found[0].sentence), found[0].sentence
        assert trouble.remedy in " ".join(found[0].remedy)
        assert "secret" not in str(answer)  # no literal of a statement
        if trouble.heals:
            with psycopg.connect(cluster.dsn(), autocommit=True) as conn:
                for text in filter(command, found[0].remedy):
                    for each in filter(None, map(str.strip, text.partition("  --")[0].split(";"))):
                        conn.execute(each.encode())
            assert trouble.id not in {one.id for one in checked(cluster).findings}
