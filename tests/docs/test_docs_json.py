"""Every key of every JSON document is described in docs/reference/json.md."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
import sys
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from docs_pages import DOCS

import mrtuner
from mrtuner.bench.judge import judge
from mrtuner.bench.output import Latency
from mrtuner.bench.pgbench import Load, Run
from mrtuner.bench.record import ArmRecord, Plan, Record, Sample
from mrtuner.cli.proving import Proof

pytestmark = pytest.mark.timed

if TYPE_CHECKING:
    from mrtuner.postgres.cluster import Cluster

PAGE = (DOCS / "reference" / "json.md").read_text(encoding="utf-8")
#: Their keys are names of parameters, facts, variables, or of IAM, not fields of ours.
OPEN = {"settings", "host", "without", "values", "environment", "policy"}


def described(schema: str) -> set[str]:
    """The fields that a section names; a shared part may be described in another section."""
    section = PAGE.split(f"## `{schema}`\n")[1].split("\n## ")[0]
    return set(re.findall(r"`([\w.]+)`", section))


def keys(document: Any) -> Iterator[str]:
    if isinstance(document, Mapping):
        for key, value in document.items():
            yield key
            if key not in OPEN:
                yield from keys(value)
    elif isinstance(document, (list, tuple)):
        for item in document:
            yield from keys(item)


def output(*arguments: str, state: Path) -> Any:
    environment = os.environ | {"MRTUNER_STATE_DIR": str(state)}
    program = Path(sys.executable).parent / "mrtuner"
    done = subprocess.run(
        [program, *arguments], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_every_key_of_a_tuning_is_described(embedded: Cluster, tmp_path: Path) -> None:
    machine = mrtuner.tune(memory="16GB", cpus=4, connections=600).to_dict()
    live = output("tune", embedded.dsn(), "--json", state=tmp_path)
    assert machine["schema"] == live["schema"] == "mrtuner.tune/1"
    assert {*keys(machine), *keys(live)} - described("mrtuner.tune/1") == set()


@pytest.mark.parametrize("name", [["work_mem"], ["io_workers"], ["log_destination"], []])
def test_every_key_of_an_explanation_is_described(name: list[str], tmp_path: Path) -> None:
    document = output("explain", *name, "--json", state=tmp_path)
    assert document["schema"] == "mrtuner.explain/1"
    assert set(keys(document)) - described("mrtuner.explain/1") == set()


def test_every_key_of_apply_and_undo_is_described(embedded: Cluster, tmp_path: Path) -> None:
    settings = tmp_path / "two.conf"
    settings.write_text("work_mem = 5MB\njit = on\n")
    dsn = embedded.dsn()
    applied = output(
        "apply", dsn, "--from", str(settings), "--yes", "--json", state=tmp_path / "state"
    )
    undone = output("undo", dsn, "--yes", "--json", state=tmp_path / "state")
    assert (applied["schema"], undone["schema"]) == ("mrtuner.apply/1", "mrtuner.undo/1")
    known = described("mrtuner.apply/1")
    assert set(keys(applied)) - known == set()
    assert set(keys(undone)) - known == set()
    assert set(undone) == described("mrtuner.undo/1") - {"mrtuner.apply/1"}


def fields(kind: type) -> Iterator[str]:
    """The names of a record's fields, and of the records inside it."""
    for name, hint in typing.get_type_hints(kind).items():
        yield name
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                assert isinstance(part, type)
                yield from fields(part)


def test_every_key_of_a_proof_is_described() -> None:
    names = set(fields(Record)) | {"schema"}
    assert {"steal", "p999", "protocol"} <= names
    assert names - described("mrtuner.proof/1") == set()


def test_every_key_of_a_report_is_described() -> None:
    document = small_proof().document()
    assert document["schema"] == "mrtuner.report/1"
    own = {key: value for key, value in document.items() if key not in {"tuning", "proof"}}
    assert {*document, *keys(own)} - described("mrtuner.report/1") == set()


def small_proof() -> Proof:
    """A proof of one block, written down."""
    record = Record(
        plan=Plan(load=Load(), seed=1),
        arms=(ArmRecord(name="current", settings={}), ArmRecord(name="advised", settings={})),
        calibration_order=(),
        order=(("current", "advised"),),
        samples=(sample("current", 1, 100.0), sample("advised", 2, 110.0)),
        notes=(),
        local=True,
        script=None,
        host={},
        kernel="Linux",
        pgbench="18",
        mrtuner="0.1.0",
        started="2026-11-01T00:00:00+00:00",
        ended="2026-11-01T00:10:00+00:00",
    )
    applied: dict[str, Any] = dict.fromkeys(
        ("steps", "left_alone", "refused", "elsewhere", "method", "undo", "restarted")
    )
    return Proof(
        tuning=mrtuner.tune(memory="1GB", cpus=1),
        record=record,
        judgement=judge(record),
        applied=applied,
    )


def sample(arm: str, position: int, tps: float) -> Sample:
    latency = Latency(mean=1, stddev=1, p50=1, p95=2, p99=3, p999=4, maximum=5)
    run = Run(
        transactions=int(tps) * 60, failed=0, tps=tps, latency=latency, per_second=(1, 2),
        sampling=1.0, wall=61.0, client_cpu=1.0,
    )  # fmt: skip
    return Sample(
        phase="comparison", block=1, attempt=1, position=position, label=arm, arm=arm, seed=1,
        started="2026-11-01T00:00:00+00:00", warmup_tps=None, run=run, checkpoint=1.0, wal_bytes=1,
        checkpoints_timed=0, checkpoints_requested=0, steal=None, foreign=None,
    )  # fmt: skip


def test_every_schema_has_its_section() -> None:
    """Found in the source: a new kind of document is not forgotten."""
    source = (path.read_text(encoding="utf-8") for path in (DOCS.parent / "src").rglob("*.py"))
    schemas = {match for text in source for match in re.findall(r'"(mrtuner\.[a-z.]+/\d+)"', text)}
    assert len(schemas) >= 6
    assert schemas == set(re.findall(r"^## `(mrtuner\.[a-z.]+/\d+)`", PAGE, re.MULTILINE))
