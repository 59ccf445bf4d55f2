"""Copies to another region, in the lab: each is made once, waited for, kept or refused."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from mrtuner.aws.errors import AwsError
from mrtuner.errors import BadValue
from rdstune.fleet.snapshot_copy import CopyState, Progress, Report, SnapshotCopy, copy_snapshots
from rdstune.fleet.snapshots import Job
from rdstune.lab import Lab
from rdstune.lambda_handler import SnapshotsNotCopied, handler, job_from, template

pytestmark = pytest.mark.timed

HERE, THERE = "eu-west-1", "eu-central-1"
JOB = Job(source=HERE, destination=THERE)


@pytest.fixture(autouse=True)
def _copies_stay_pending(lab: Lab) -> None:
    """A copy takes a minute of real time unless a test settles the lab, however busy we are."""
    lab.go_on_at(1)


def rds(region: str) -> Any:
    return boto3.client("rds", region_name=region)


def make_instances(lab: Lab, *names: str, **more: Any) -> None:
    for name in names:
        rds(HERE).create_db_instance(
            DBInstanceIdentifier=name, DBInstanceClass="db.r6g.large", Engine="postgres",
            AllocatedStorage=20, MasterUsername="postgres", MasterUserPassword="only in the lab",
            **more,
        )  # fmt: skip
    lab.settle()


def take(lab: Lab, *names: str) -> None:
    """Take a snapshot for each name, which is INSTANCE-N."""
    for name in names:
        rds(HERE).create_db_snapshot(
            DBSnapshotIdentifier=name, DBInstanceIdentifier=name.partition("-")[0]
        )
    lab.settle()


def run(lab: Lab, job: Job = JOB) -> Report:
    """Copy; instead of sleeping, the lab's clock moves on."""
    return copy_snapshots(job, sleep=lambda _: lab.settle())


def there() -> dict[str, dict[str, Any]]:
    pages = rds(THERE).get_paginator("describe_db_snapshots").paginate()
    return {one["DBSnapshotIdentifier"]: one for page in pages for one in page["DBSnapshots"]}


def outcomes(report: Report) -> dict[str, CopyState]:
    return {copy.source: copy.outcome for copy in report.copies}


def count(lab: Lab, action: str) -> int:
    return lab.calls.count(("rds", action))


def failed(report: Report) -> list[SnapshotCopy]:
    return [copy for copy in report.copies if copy.outcome is CopyState.FAILED]


def test_the_newest_snapshot_of_each_instance_arrives_whole(lab: Lab) -> None:
    make_instances(lab, "shop", "stock")
    take(lab, "shop-1", "stock-1")
    take(lab, "shop-2")
    report = run(lab)
    assert report.ok
    assert outcomes(report) == {"shop-2": CopyState.COPIED, "stock-1": CopyState.COPIED}
    arrived = there()
    assert set(arrived) == {copy.copy for copy in report.copies}
    assert {one["Status"] for one in arrived.values()} == {"available"}
    assert {one["SourceRegion"] for one in arrived.values()} == {HERE}


def test_a_copy_of_an_older_snapshot_is_no_newer_for_being_copied_later(lab: Lab) -> None:
    """Somebody copies the data of the first one today, after the second was taken."""
    make_instances(lab, "shop")
    take(lab, "shop-1")
    take(lab, "shop-2")
    arn = f"arn:aws:rds:{HERE}:123456789012:snapshot:shop-1"
    rds(HERE).copy_db_snapshot(SourceDBSnapshotIdentifier=arn, TargetDBSnapshotIdentifier="kept")
    lab.settle()
    assert outcomes(run(lab)) == {"shop-2": CopyState.COPIED}


def test_a_second_run_finds_the_copies_and_asks_for_none(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-1")
    run(lab)
    lab.forget_calls()
    assert outcomes(run(lab)) == {"shop-1": CopyState.PRESENT}
    assert count(lab, "CopyDBSnapshot") == 0


def test_a_run_waits_for_copies_that_an_earlier_one_started(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-1")
    away = Job(source=HERE, destination=THERE, wait=False)
    assert outcomes(copy_snapshots(away)) == {"shop-1": CopyState.STARTED}
    told: list[Progress] = []
    report = copy_snapshots(JOB, tell=told.append, sleep=lambda _: lab.settle())
    assert outcomes(report) == {"shop-1": CopyState.PRESENT}
    assert (told[0].done, told[-1].done, told[-1].of) == (0, 1, 1)


def test_two_processes_that_ask_at_the_same_moment_make_one_copy_each(lab: Lab) -> None:
    """Both runs ask for every copy: AWS makes it once, and both runs succeed."""
    names = ("shop", "stock", "users")
    lab.go_on_at(60)  # the processes wait in real time
    make_instances(lab, *names)
    take(lab, *(f"{name}-1" for name in names))
    lab.forget_calls()
    with meeting(lab.endpoint_url) as url:
        runs = [start_copying(lab, url) for _ in range(2)]
        answers = [one.communicate(timeout=60) for one in runs]
    assert [one.returncode for one in runs] == [0, 0], answers
    documents = [json.loads(out) for out, _ in answers]
    assert count(lab, "CopyDBSnapshot") == 6
    assert len(there()) == 3
    for source in (f"{name}-1" for name in names):
        became = sorted(
            copy["outcome"] for one in documents for copy in one["copies"]
            if copy["source"] == source
        )  # fmt: skip
        assert became == ["copied", "present"]


def start_copying(lab: Lab, url: str) -> subprocess.Popen[str]:
    program = str(Path(sys.executable).parent / "rdstune")
    command = [
        program,
        "snapshots",
        "copy",
        "--from-region",
        HERE,
        "--to-region",
        THERE,
        "--poll",
        "0.3s",
    ]
    return subprocess.Popen(
        [*command, "--json"],
        env=lab.environment | {"AWS_ENDPOINT_URL": url},
        text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


@contextmanager
def meeting(lab: str) -> Iterator[str]:
    """A proxy to the lab that holds each CopyDBSnapshot until another one arrives."""
    both = threading.Barrier(2)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if b"Action=CopyDBSnapshot" in body:
                both.wait(timeout=30)
            kept = {name: self.headers[name] for name in ("Authorization", "Content-Type")}
            status, answer = forwarded(urllib.request.Request(lab, body, kept))
            self.send_response(status)
            self.send_header("Content-Type", "text/xml")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def forwarded(request: urllib.request.Request) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read()


def test_no_more_copies_are_asked_for_than_a_region_takes_at_once(lab: Lab) -> None:
    """The lab refuses the 21st, as AWS does; none is refused here."""
    names = [f"shop{number}" for number in range(23)]
    lab.go_on_at(60)  # the processes wait in real time
    make_instances(lab, *names)
    take(lab, *(f"{name}-1" for name in names))
    lab.forget_calls()
    report = run(lab)
    assert report.ok
    assert len(there()) == 23
    assert count(lab, "CopyDBSnapshot") == 23


def test_without_waiting_the_rest_is_left_for_the_next_run(lab: Lab) -> None:
    names = [f"shop{number}" for number in range(23)]
    make_instances(lab, *names)
    take(lab, *(f"{name}-1" for name in names))
    away = Job(source=HERE, destination=THERE, wait=False)
    first = copy_snapshots(away)
    assert first.ok
    became = list(outcomes(first).values())
    assert (became.count(CopyState.STARTED), became.count(CopyState.POSTPONED)) == (20, 3)
    lab.settle()
    second = list(outcomes(copy_snapshots(away)).values())
    assert (second.count(CopyState.PRESENT), second.count(CopyState.STARTED)) == (20, 3)


def test_a_region_filled_by_others_is_waited_for(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-1")
    arn = rds(HERE).describe_db_snapshots()["DBSnapshots"][0]["DBSnapshotArn"]
    for number in range(20):
        rds(THERE).copy_db_snapshot(
            SourceDBSnapshotIdentifier=arn, TargetDBSnapshotIdentifier=f"theirs-{number}"
        )
    lab.forget_calls()
    assert run(lab).ok
    assert count(lab, "CopyDBSnapshot") == 1


def test_an_encrypted_snapshot_without_a_key_fails_and_the_others_are_copied(lab: Lab) -> None:
    make_instances(lab, "open")
    make_instances(lab, "closed", StorageEncrypted=True)
    take(lab, "open-1", "closed-1")
    report = run(lab)
    assert not report.ok
    (failure,) = failed(report)
    assert failure.source == "closed-1"
    assert failure.error == "an encrypted snapshot needs a key in eu-central-1"
    assert "--kms-key" in (failure.hint or "")
    assert len(there()) == 1


def test_an_encrypted_snapshot_that_was_copied_already_needs_no_key(lab: Lab) -> None:
    make_instances(lab, "closed", StorageEncrypted=True)
    take(lab, "closed-1")
    key = boto3.client("kms", region_name=THERE).create_key()["KeyMetadata"]["Arn"]
    assert run(lab, Job(source=HERE, destination=THERE, kms_key=key)).ok
    again = run(lab)
    assert again.ok
    assert [copy.outcome for copy in again.copies] == [CopyState.PRESENT]


def test_a_key_of_the_destination_encrypts_the_copies(lab: Lab) -> None:
    make_instances(lab, "closed", StorageEncrypted=True)
    take(lab, "closed-1")
    key = boto3.client("kms", region_name=THERE).create_key()["KeyMetadata"]["Arn"]
    assert run(lab, Job(source=HERE, destination=THERE, kms_key=key)).ok
    (copy,) = there().values()
    assert (copy["Encrypted"], copy["KmsKeyId"]) == (True, key)


def test_a_key_that_is_switched_off_is_found_out_before_anything_is_copied(lab: Lab) -> None:
    make_instances(lab, "closed", StorageEncrypted=True)
    take(lab, "closed-1")
    kms = boto3.client("kms", region_name=THERE)
    key = kms.create_key()["KeyMetadata"]["KeyId"]
    kms.disable_key(KeyId=key)
    (failure,) = failed(run(lab, Job(source=HERE, destination=THERE, kms_key=key)))
    assert failure.error == f"the key {key} is Disabled"
    assert count(lab, "CopyDBSnapshot") == 0


def test_a_key_that_is_not_there_fails_with_its_name(lab: Lab) -> None:
    make_instances(lab, "closed", StorageEncrypted=True)
    take(lab, "closed-1")
    (failure,) = failed(run(lab, Job(source=HERE, destination=THERE, kms_key="alias/none")))
    assert "alias/none" in (failure.error or "")


def test_old_copies_of_ours_go_and_nothing_else_does(lab: Lab) -> None:
    make_instances(lab, "shop", "stock")
    rds(THERE).create_db_instance(
        DBInstanceIdentifier="shop", DBInstanceClass="db.r6g.large", Engine="postgres",
        AllocatedStorage=20, MasterUsername="postgres", MasterUserPassword="only in the lab",
    )  # fmt: skip
    lab.settle()
    rds(THERE).create_db_snapshot(DBSnapshotIdentifier="mine", DBInstanceIdentifier="shop")
    lab.settle()
    job = Job(source=HERE, destination=THERE, keep=2)
    take(lab, "stock-1")
    names = []
    for number in range(4):
        take(lab, f"shop-{number}")
        report = run(lab, job)
        names += [copy.copy for copy in report.copies if copy.instance == "shop"]
    left = set(there())
    assert {"mine", *names[2:]} <= left
    assert not left & set(names[:2])
    assert len(left) == 4  # mine, two of shop, one of stock


def test_a_copy_that_somebody_made_of_our_copy_stays(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-0")
    (first,) = run(lab).copies
    rds(THERE).copy_db_snapshot(
        SourceDBSnapshotIdentifier=first.copy, TargetDBSnapshotIdentifier="theirs", CopyTags=True
    )
    lab.settle()
    take(lab, "shop-1")
    report = run(lab, Job(source=HERE, destination=THERE, keep=1))
    assert report.deleted == (first.copy,)
    assert "theirs" in there()


def test_the_last_whole_copy_stays_while_a_newer_one_is_being_made(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-0")
    (first,) = run(lab).copies
    take(lab, "shop-1")
    report = copy_snapshots(Job(source=HERE, destination=THERE, keep=1, wait=False))
    assert outcomes(report) == {"shop-1": CopyState.STARTED}
    assert report.deleted == ()
    assert first.copy in there()


def test_whatever_else_aws_answers_is_a_failure_with_its_reason(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-1")
    lab.deny("rds:CopyDBSnapshot")
    (failure,) = failed(run(lab))
    assert failure.error == "AWS denies rds:CopyDBSnapshot in eu-central-1"


def test_a_copy_that_fails_at_aws_is_a_failure(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-1")
    (begun,) = copy_snapshots(Job(source=HERE, destination=THERE, wait=False)).copies
    lab.settle()  # else the copy may become available after we have written
    lab.fail_snapshot(begun.copy, THERE)
    (failure,) = failed(run(lab))
    assert failure.error == "the copy is failed"
    assert "delete that copy" in (failure.hint or "")


def test_a_copy_that_somebody_deletes_on_the_way_is_a_failure(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-1")
    (begun,) = copy_snapshots(Job(source=HERE, destination=THERE, wait=False)).copies

    def delete(_: float) -> None:
        lab.lose_snapshot(begun.copy, THERE)

    (failure,) = failed(copy_snapshots(JOB, sleep=delete))
    assert failure.error == f"the copy {begun.copy} has disappeared"


def test_a_retention_that_is_denied_is_a_failure_and_says_which_copy_stays(lab: Lab) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-0")
    (first,) = run(lab).copies
    take(lab, "shop-1")
    lab.deny("rds:DeleteDBSnapshot")
    report = run(lab, Job(source=HERE, destination=THERE, keep=1))
    assert not report.ok
    assert report.failures == (
        f"cannot delete {first.copy}: AWS denies rds:DeleteDBSnapshot in eu-central-1",
    )


def test_an_instance_that_was_named_and_has_no_snapshot_is_a_failure(lab: Lab) -> None:
    make_instances(lab, "shop")
    job = Job(source=HERE, destination=THERE, instances=frozenset({"shop", "sohp"}))
    report = run(lab, job)
    assert report.failures == (
        "no snapshot of instance shop in eu-west-1",
        "no snapshot of instance sohp in eu-west-1",
    )


def test_a_region_without_any_snapshot_does_not_look_like_a_safe_copy(lab: Lab) -> None:
    assert run(lab).failures == ("no snapshot of any instance in eu-west-1",)


def test_instances_without_a_snapshot_are_named_though_nobody_asked(lab: Lab) -> None:
    make_instances(lab, "shop", "stock", BackupRetentionPeriod=0)
    take(lab, "shop-1")
    report = run(lab)
    assert report.ok
    assert report.notes == ("stock has no snapshot in eu-west-1",)


def test_a_region_that_does_not_answer_is_one_error(lab: Lab) -> None:
    make_instances(lab, "shop")
    lab.fail_region(THERE, "closed")
    take(lab, "shop-1")
    with pytest.raises(AwsError) as error:
        run(lab)
    assert "eu-central-1" in error.value.message


def test_the_function_starts_copies_and_answers_with_the_document(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_instances(lab, "shop")
    take(lab, "shop-1")
    monkeypatch.setenv("SOURCE_REGION", HERE)
    monkeypatch.setenv("DESTINATION_REGION", THERE)
    answer = json.loads(json.dumps(handler({}, None)))
    assert answer["schema"] == "mrtuner.rds.snapshots/1"
    assert [copy["outcome"] for copy in answer["copies"]] == ["started"]


def test_the_function_fails_after_it_has_tried_everything(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_instances(lab, "open")
    make_instances(lab, "closed", StorageEncrypted=True)
    take(lab, "open-1", "closed-1")
    monkeypatch.setenv("SOURCE_REGION", HERE)
    monkeypatch.setenv("DESTINATION_REGION", THERE)
    with pytest.raises(SnapshotsNotCopied, match="closed-1: an encrypted snapshot needs a key"):
        handler({}, None)
    assert len(there()) == 1


def test_the_template_names_the_function_and_the_variables_that_it_reads() -> None:
    text = template()
    (named,) = re.findall(r"Handler: (\S+)", text)
    module, _, name = named.rpartition(".")
    assert getattr(importlib.import_module(module), name) is handler
    set_there = re.findall(r"^ {10}([A-Z_]+): !Ref", text, re.MULTILINE)
    assert set(set_there) == {
        "SOURCE_REGION", "DESTINATION_REGION", "KMS_KEY", "KEEP", "INSTANCES",
    }  # fmt: skip


def test_the_functions_environment_is_a_job() -> None:
    environment = {
        "SOURCE_REGION": HERE, "AWS_REGION": THERE, "KEEP": "7", "INSTANCES": "Shop, stock",
        "KMS_KEY": "",
    }  # fmt: skip
    assert job_from(environment) == Job(
        source=HERE, destination=THERE, keep=7, instances=frozenset({"shop", "stock"}), wait=False
    )


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"AWS_REGION": THERE}, "SOURCE_REGION is not set"),
        ({"SOURCE_REGION": HERE}, "AWS_REGION is not set"),
        (
            {"SOURCE_REGION": HERE, "AWS_REGION": THERE, "KEEP": "all"},
            "KEEP is not a whole number: 'all'",
        ),
    ],
)
def test_an_environment_that_is_no_job_is_refused(
    environment: dict[str, str], message: str
) -> None:
    with pytest.raises(BadValue) as refused:
        job_from(environment)
    assert refused.value.message == message
