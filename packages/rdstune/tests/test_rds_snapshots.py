"""Which snapshots are copied, how a copy is called, which old copies may go: without AWS."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrtuner.errors import BadValue
from rdstune.fleet.aws_snapshots import Snapshot
from rdstune.fleet.snapshots import (
    Job,
    copy_name,
    copy_tags,
    expired,
    is_copy,
    moving,
    newest,
    under_way,
)

FIVE = datetime(2026, 11, 20, 5, 0, tzinfo=UTC)
JOB = Job(source="eu-west-1", destination="eu-central-1", keep=2)
#: As the API Reference of CopyDBSnapshot has it: letters, digits, single hyphens, a letter first.
ACCEPTED = re.compile(r"[A-Za-z](?:[A-Za-z0-9]|-(?!-|$)){0,254}")


def snapshot(
    identifier: str, *, instance: str = "shop", taken: datetime = FIVE, status: str = "available"
) -> Snapshot:
    return Snapshot(
        identifier=identifier,
        arn=f"arn:aws:rds:eu-west-1:123456789012:snapshot:{identifier}",
        instance=instance,
        resource_id=f"db-{instance.upper()}",
        kind="automated" if identifier.startswith("rds:") else "manual",
        status=status,
        taken=taken,
    )


def copied(source: Snapshot, status: str = "available") -> Snapshot:
    """A copy of ours, as the destination lists it."""
    name = copy_name(source, "eu-west-1")
    return replace(
        source,
        identifier=name,
        arn=f"arn:aws:rds:eu-central-1:123456789012:snapshot:{name}",
        kind="manual",
        status=status,
        source_region="eu-west-1",
        tags=copy_tags(source, "eu-west-1"),
    )


def days(number: int) -> list[Snapshot]:
    return [snapshot(f"rds:shop-{day}", taken=FIVE + timedelta(days=day)) for day in range(number)]


def test_the_newest_whole_snapshot_of_each_instance_is_copied() -> None:
    listed = [
        snapshot("rds:shop-2026-11-19", taken=FIVE - timedelta(days=1)),
        snapshot("before-upgrade", taken=FIVE),
        snapshot("rds:shop-2026-11-21", taken=FIVE + timedelta(days=1), status="creating"),
        snapshot("rds:stock-2026-11-20", instance="stock"),
    ]
    assert [one.identifier for one in newest(listed)] == ["before-upgrade", "rds:stock-2026-11-20"]


def test_a_copy_of_ours_is_not_copied_back() -> None:
    theirs = snapshot("rds:shop-1")
    assert newest([copied(snapshot("x", taken=FIVE + timedelta(days=9))), theirs]) == (theirs,)


def test_a_snapshot_without_a_time_is_still_being_made() -> None:
    assert newest([replace(snapshot("a"), taken=None)]) == ()


def test_the_name_of_a_copy_can_be_read_and_is_the_same_in_every_run() -> None:
    """The digest by hand: printf 'ARN TIME' | sha256sum."""
    name = copy_name(snapshot("rds:shop-2026-11-20-05-00"), "eu-west-1")
    assert name == "mrtuner-eu-west-1-shop-2026-11-20-05-00-447ce72211"


def test_snapshots_that_had_the_same_name_one_after_the_other_have_different_copies() -> None:
    first = snapshot("before-upgrade")
    second = snapshot("before-upgrade", taken=FIVE + timedelta(days=30))
    assert copy_name(first, "eu-west-1") != copy_name(second, "eu-west-1")


def test_names_that_differ_in_their_signs_only_have_different_copies() -> None:
    automated, manual = snapshot("rds:shop-2026"), snapshot("shop-2026")
    assert copy_name(automated, "eu-west-1") != copy_name(manual, "eu-west-1")


@given(st.text("abzAZ09-.:_ é", min_size=1, max_size=255))
def test_aws_takes_every_name_that_we_make(identifier: str) -> None:
    assert ACCEPTED.fullmatch(copy_name(snapshot(identifier), "ap-southeast-2"))


def test_retention_leaves_the_newest_few_and_takes_the_oldest_first() -> None:
    sources = days(5)
    gone = expired([copied(one) for one in reversed(sources)], JOB, sources[-1:])
    assert [one.identifier for one in gone] == [copied(one).identifier for one in sources[:3]]


def test_copies_that_are_being_made_or_have_failed_neither_count_nor_go() -> None:
    sources = days(4)
    listed = [
        copied(sources[0]),
        copied(sources[1]),
        copied(sources[2], status="failed"),
        copied(sources[3], status="creating"),
    ]
    assert expired(listed, JOB, sources[-1:]) == ()


def test_what_others_made_is_never_deleted() -> None:
    """A copy that somebody made of our copy has our tags, but another name."""
    sources = days(4)
    tagged = [replace(copied(one), identifier=f"mine-{day}") for day, one in enumerate(sources)]
    untagged = [replace(copied(one), tags={}) for one in sources]
    automated = [replace(copied(one), kind="automated") for one in sources]
    assert not any(is_copy(one) for one in tagged + untagged + automated)
    assert expired(tagged + untagged + automated, JOB, sources) == ()


def test_copies_from_another_region_or_of_another_life_of_an_instance_stay() -> None:
    sources = days(4)
    elsewhere = [
        replace(copied(one), tags={**copied(one).tags, "mrtuner:source-region": "us-east-1"})
        for one in sources
    ]
    born_again = [replace(sources[-1], resource_id="db-OTHER")]
    assert expired(elsewhere, JOB, sources) == ()
    assert expired([copied(one) for one in sources], JOB, born_again) == ()


def test_nothing_is_deleted_unless_it_is_asked_for() -> None:
    sources = days(4)
    assert expired([copied(one) for one in sources], replace(JOB, keep=None), sources) == ()


def test_copies_under_way_are_counted_whoever_started_them() -> None:
    ours = copied(snapshot("a"), status="creating")
    theirs = replace(snapshot("b", status="copying"), source_region="us-east-1")
    own = replace(snapshot("c", status="creating"), source_region="eu-central-1")
    done = copied(snapshot("d"))
    assert under_way([ours, theirs, own, done], "eu-central-1") == 2


@pytest.mark.parametrize("status", ["failed", "deleting", "incompatible-restore"])
def test_from_some_statuses_no_snapshot_becomes_whole(status: str) -> None:
    assert not moving(snapshot("a", status=status))
    assert moving(snapshot("a", status="a-status-of-tomorrow"))


def test_instances_are_named_in_any_case() -> None:
    job = Job(source="eu-west-1", destination="eu-central-1", instances=frozenset({"Shop"}))
    assert job.wants("shop")
    assert not job.wants("stock")


@pytest.mark.parametrize(
    ("changes", "message", "hint"),
    [
        ({"destination": "eu-west-1"}, "source and destination are both eu-west-1", "--to-region"),
        ({"keep": 0}, "keep = 0 would delete the last good copy", "Keep 1 or more"),
        (
            {"kms_key": "arn:aws:kms:eu-west-1:123456789012:key/1-2"},
            "the key is in eu-west-1, but the copies go to eu-central-1",
            "Use a key in eu-central-1",
        ),
    ],
)
def test_a_job_that_cannot_be_meant_is_refused(
    changes: dict[str, object], message: str, hint: str
) -> None:
    with pytest.raises(BadValue) as refused:
        replace(JOB, **changes)  # type: ignore[arg-type]
    assert refused.value.message == message
    assert hint in (refused.value.hint or "")
