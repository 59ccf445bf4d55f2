"""Rows before and after: unchanged values written again are found, changed ones not reported."""

from __future__ import annotations

from dataclasses import replace

import pytest
from conftest import NewCluster
from vacuum_tables import picture, sample, table

from mrtuner.errors import UsageError
from mrtuner.postgres.cluster import Cluster
from mrtuner.vacuum import judge, vacuum
from mrtuner.vacuum.model import ToastAmplification
from mrtuner.vacuum.sample import (
    ColumnComparison,
    ColumnVerdict,
    Row,
    TableComparison,
    Value,
    compare,
    settled,
)
from servers import counted, sql

Rows = dict[str, Row]


def rows(version: str, digest: str, chunk: int | None, count: int = 100) -> Rows:
    return {str(key): Row(version, {"body": Value(10_240, digest, chunk)}) for key in range(count)}


def one(before: Rows, after: Rows, written_again: float | None = None) -> ColumnComparison:
    (proof,) = compare(before, after, written_again)
    return proof


def test_the_same_value_under_another_chunk_id_was_written_again() -> None:
    proof = one(rows("1", "a", 10), rows("2", "a", 11))
    assert (proof.updated, proof.same, proof.rewritten) == (100, 100, 100)
    assert proof.verdict is ColumnVerdict.REWRITTEN


def test_another_value_is_a_change_not_waste() -> None:
    proof = one(rows("1", "a", 10), rows("2", "b", 11))
    assert (proof.same, proof.rewritten, proof.verdict) == (0, 0, ColumnVerdict.CHANGED)


def test_the_same_value_under_the_same_chunk_id_was_left_alone() -> None:
    assert one(rows("1", "a", 10), rows("2", "a", 10)).verdict is ColumnVerdict.COPIED


def test_rows_that_were_not_updated_do_not_count() -> None:
    assert compare(rows("1", "a", 10), rows("1", "a", 10), None) == ()
    half = {**rows("1", "a", 10), **rows("2", "a", 11, 40)}
    assert one(rows("1", "a", 10), half).updated == 40


def test_a_few_updated_rows_prove_nothing() -> None:
    assert one(rows("1", "a", 10, 29), rows("2", "a", 11, 29)).verdict is ColumnVerdict.UNDECIDED


@pytest.mark.parametrize(
    ("digest", "written_again", "verdict"),
    [
        ("a", 1.0, ColumnVerdict.REWRITTEN),  # nothing changed, yet all was written
        ("a", 0.0, ColumnVerdict.COPIED),
        ("b", 1.0, ColumnVerdict.CHANGED),  # all was written, because all had changed
        ("a", None, ColumnVerdict.UNDECIDED),
    ],
)
def test_without_chunk_ids_the_statistics_stand_in(
    digest: str, written_again: float | None, verdict: ColumnVerdict
) -> None:
    proof = one(rows("1", "a", None), rows("2", digest, None), written_again)
    assert (proof.rewritten, proof.verdict) == (None, verdict)


def test_waste_that_is_proven_is_something_to_do() -> None:
    found = judge(picture(sample(1_000.0, table())))
    body = one(rows("1", "a", 10), rows("2", "a", 11))
    proof = TableComparison(oid=1, table="doc", rows=100, columns=(body,))
    assert not found.to_do
    assert replace(found, proofs=(proof,)).to_do


BODY = "repeat('abcdefghij', 1024)"


def documents(dsn: str) -> None:
    counted(
        dsn,
        'CREATE TABLE "a doc" (id bigint PRIMARY KEY, n int, body text)',
        'ALTER TABLE "a doc" ALTER body SET STORAGE EXTERNAL',
        f'INSERT INTO "a doc" SELECT i, 0, {BODY} FROM generate_series(1, 150) AS i',
        'VACUUM ANALYZE "a doc"',
    )


@pytest.mark.timed
@pytest.mark.parametrize("major", [16, 18])
def test_a_server_shows_what_its_updates_did(new_cluster: NewCluster, major: int) -> None:
    """16 has no chunk ids, so its statistics must show that values were written again."""
    dsn = new_cluster(major, {"autovacuum": "off"}).dsn()
    documents(dsn)
    changes = {
        f"n = n + 1, body = {BODY}": ColumnVerdict.REWRITTEN,
        "n = n + 1, body = body || 'x'": ColumnVerdict.CHANGED,
        "n = n + 1": ColumnVerdict.COPIED,
    }
    for change, verdict in changes.items():

        def update(_seconds: float, change: str = change) -> None:
            counted(dsn, f'UPDATE "a doc" SET {change}')

        found = vacuum(dsn, watch=5, sample=['"a doc"'], sleep=update)
        ((proof,),) = (one.columns for one in found.proofs)
        assert (proof.column, proof.updated, proof.verdict) == ("body", 150, verdict)
        (said,) = (one.amplification for one in found.tables)
        assert said is not None
        accused = verdict is ColumnVerdict.REWRITTEN
        assert (said.suspicion is not None) == accused
        assert ("proven by comparing rows: body" in said.certainty) == accused


@pytest.mark.timed
@pytest.mark.parametrize("major", [16, 18])
def test_a_short_column_does_not_leave_it_undecided(new_cluster: NewCluster, major: int) -> None:
    """The body is large and changes with every update; the title is short and proves nothing."""
    dsn = new_cluster(major, {"autovacuum": "off"}).dsn()
    documents(dsn)
    sql(dsn, "ALTER TABLE \"a doc\" ADD COLUMN title text DEFAULT 'a title'")

    def update(_seconds: float) -> None:
        counted(dsn, "UPDATE \"a doc\" SET n = n + 1, body = body || 'x'")

    found = vacuum(dsn, watch=5, sample=['"a doc"'], sleep=update)
    ((proof,),) = (one.columns for one in found.proofs)
    assert (proof.column, proof.verdict) == ("body", ColumnVerdict.CHANGED)
    (said,) = (one.amplification for one in found.tables)
    assert said is not None
    assert (said.suspicion, "--sample" in said.certainty) == (None, False)


@pytest.mark.timed
@pytest.mark.parametrize("major", [16, 18])
def test_a_column_is_not_accused_of_what_its_neighbour_does(
    new_cluster: NewCluster, major: int
) -> None:
    """Both are large, 16 chunks and 6. One changes with every update, the other is never named."""
    dsn = new_cluster(major, {"autovacuum": "off"}).dsn()
    documents(dsn)
    counted(
        dsn,
        'ALTER TABLE "a doc" ADD COLUMN scan text',
        'ALTER TABLE "a doc" ALTER scan SET STORAGE EXTERNAL',
        f"UPDATE \"a doc\" SET scan = {BODY}, body = repeat('abcdefghij', 3072)",
    )  # wait for this session's counters, so that they are not added to those of VACUUM
    sql(dsn, 'VACUUM ANALYZE "a doc"')

    def update(_seconds: float) -> None:
        counted(dsn, "UPDATE \"a doc\" SET body = body || 'x'")

    (compared,) = vacuum(dsn, watch=5, sample=['"a doc"'], sleep=update).proofs
    assert {proof.column: proof.verdict for proof in compared.columns} == {
        "body": ColumnVerdict.CHANGED,
        "scan": ColumnVerdict.COPIED,
    }


def suspected() -> ToastAmplification:
    return ToastAmplification(
        per_update=6, per_row=6, rewritten=1.0, chunks_an_hour=100, suspicion="all of it",
        certainty="compare rows with --sample",
    )  # fmt: skip


def table_proof(*columns: ColumnComparison, why: str | None = None) -> TableComparison:
    return TableComparison(oid=1, table="doc", rows=100, columns=columns, why=why)


def test_a_column_that_few_rows_have_does_not_keep_it_open() -> None:
    body = one(rows("1", "a", 10), rows("2", "b", 11))
    rare = replace(body, column="rare", updated=3, same=3, verdict=ColumnVerdict.UNDECIDED)
    assert settled(suspected(), table_proof(body, rare)).suspicion is None
    often = replace(rare, updated=29)
    half = replace(body, updated=40)
    assert settled(suspected(), table_proof(half, often)).suspicion is not None


def test_what_a_sample_leaves_open_does_not_ask_for_a_sample() -> None:
    few = one(rows("1", "a", 10, 29), rows("2", "a", 11, 29))
    left = settled(suspected(), table_proof(few))
    assert left.suspicion == "all of it"
    assert left.certainty.endswith("fewer than 30 of them were updated: watch longer")
    gone = settled(suspected(), table_proof(why="it is gone"))
    assert gone.certainty == "its rows were compared without proof: it is gone"


def test_a_table_that_cannot_be_sampled_is_named(embedded: Cluster) -> None:
    sql(embedded.dsn(), "CREATE TABLE keyless (n int)")
    try:
        with pytest.raises(UsageError, match="no single-column primary key"):
            vacuum(embedded.dsn(), watch=1, sample=["keyless"])
    finally:
        sql(embedded.dsn(), "DROP TABLE keyless")
    with pytest.raises(UsageError, match="table nowhere does not exist"):
        vacuum(embedded.dsn(), watch=1, sample=["nowhere"])
    with pytest.raises(UsageError, match="needs a watch"):
        vacuum(embedded.dsn(), sample=["nowhere"])


def test_columns_that_a_key_includes_are_not_its_own(embedded: Cluster) -> None:
    dsn = embedded.dsn()
    sql(
        dsn, "CREATE TABLE covered (n int, id int, body text, PRIMARY KEY (id) INCLUDE (n))",
        "ALTER TABLE covered ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO covered SELECT i, i, {BODY} FROM generate_series(1, 5) AS i",
    )  # fmt: skip
    (proof,) = vacuum(dsn, watch=1, sample=["covered"], sleep=lambda _: None).proofs
    sql(dsn, "DROP TABLE covered")
    assert (proof.rows, proof.why) == (5, None)


def test_a_table_that_is_dropped_meanwhile_proves_nothing(embedded: Cluster) -> None:
    dsn = embedded.dsn()
    sql(
        dsn,
        "CREATE TABLE passing (id int PRIMARY KEY, body text)",
        "ALTER TABLE passing ALTER body SET STORAGE EXTERNAL",
        f"INSERT INTO passing SELECT i, {BODY} FROM generate_series(1, 5) AS i",
    )

    def drop(_seconds: float) -> None:
        sql(dsn, "DROP TABLE passing")

    (proof,) = vacuum(dsn, watch=1, sample=["passing"], sleep=drop).proofs
    assert (proof.rows, proof.columns) == (5, ())
    assert 'relation "public.passing" does not exist' in str(proof.why)
