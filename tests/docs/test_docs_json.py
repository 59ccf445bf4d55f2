"""Every key of every JSON document is described in docs/reference/json.md."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from docs_pages import DOCS, generator

import mrtuner
from mrtuner.answers.proof.prove import Proof
from mrtuner.bench.plan.toml import template_text
from mrtuner.bench.series import LeftOut
from mrtuner.change.settings.plan import SettingsPlan
from mrtuner.cli.common import proving
from mrtuner.documents import as_builtins
from mrtuner.postgres.explain import Statement
from mrtuner.tuning.document import tune_document
from mrtuner.tuning.query_plans import ChangedPlan, NotExplained, Plans, PlanVerdict, Side
from series_data import a_load, a_series

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


def schema_of(name: str) -> Any:
    return json.loads((DOCS / "reference" / "schemas" / name).read_text(encoding="utf-8"))


def test_a_tuning_satisfies_its_schema() -> None:
    machine = mrtuner.tune(memory="16GB", cpus=4, connections=600).to_dict()
    jsonschema.validate(machine, schema_of("mrtuner.tune-1.json"))
    with pytest.raises(jsonschema.ValidationError, match="eighteen"):
        jsonschema.validate(machine | {"postgres": "eighteen"}, schema_of("mrtuner.tune-1.json"))


def test_every_field_that_is_declared_has_a_meaning() -> None:
    """The page says "the kind of document and its version" where a field has no words."""
    lines = generator().pages()[DOCS / "reference" / "json.md"].splitlines()
    silent = [line for line in lines if line.endswith("and its version |")]
    assert silent
    assert all(line.startswith("| `schema` |") for line in silent)


def test_every_key_of_plans_is_described() -> None:
    """Built by hand: one changed plan, one that could not be explained."""
    statement = Statement(id=1, text="SELECT 1", role="app", calls=1, seconds=1.0)
    side = Side(("Result  0.01",), 0.01)
    changed = ChangedPlan(
        statement=statement, verdict=PlanVerdict.OTHER, before=side, after=side, by=(), also=(),
        limits=1.0, believed_now=None, believed_then=None, same_shape=False,
    )  # fmt: skip
    plans = Plans(
        asked=1, settings=(("work_mem", "4MB", "8MB"),), left_out=(), unchanged=0,
        changed=(changed,), not_explained=(NotExplained(statement, "it is gone"),),
    )  # fmt: skip
    document = as_builtins(tune_document(mrtuner.tune(memory="1GB", cpus=1), plans))
    assert {"plans", *keys(document["plans"])} - described("mrtuner.tune/1") == set()
    validate(document, "mrtuner.tune-1.json")


@pytest.mark.parametrize("name", [["work_mem"], ["io_workers"], ["log_destination"], []])
def test_an_explanation_satisfies_its_schema(name: list[str], tmp_path: Path) -> None:
    document = output("explain", *name, "--json", state=tmp_path)
    jsonschema.validate(document, schema_of("mrtuner.explain-1.json"))
    with pytest.raises(jsonschema.ValidationError, match="eighteen"):
        jsonschema.validate(
            document | {"postgres": "eighteen"}, schema_of("mrtuner.explain-1.json")
        )


def test_apply_and_undo_satisfy_their_schemas(embedded: Cluster, tmp_path: Path) -> None:
    settings = tmp_path / "two.conf"
    settings.write_text("work_mem = 5MB\njit = on\n")
    dsn = embedded.dsn()
    applied = output(
        "apply", dsn, "--from", str(settings), "--yes", "--json", state=tmp_path / "state"
    )
    undone = output("undo", dsn, "--yes", "--json", state=tmp_path / "state")
    for document, name in ((applied, "mrtuner.apply-1.json"), (undone, "mrtuner.undo-1.json")):
        jsonschema.validate(document, schema_of(name))
        document["outcome"]["result"] = "splendid"
        with pytest.raises(jsonschema.ValidationError, match="splendid"):
            jsonschema.validate(document, schema_of(name))


@pytest.mark.parametrize(
    ("arguments", "name", "field"),
    [
        (["init"], "mrtuner.bench.plan-1.json", "plan"),
        (["run", "plan.toml", "--forecast"], "mrtuner.bench.forecast-1.json", "runs"),
    ],
)
def test_documents_of_bench_satisfy_their_schemas(
    arguments: list[str], name: str, field: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    (tmp_path / "plan.toml").write_text(template_text())
    monkeypatch.chdir(tmp_path)
    document = output("bench", *arguments, "--json", state=tmp_path)
    jsonschema.validate(document, schema_of(name))
    with pytest.raises(jsonschema.ValidationError, match="many"):
        jsonschema.validate(document | {field: "many"}, schema_of(name))


def test_a_report_satisfies_its_schema() -> None:
    document = as_builtins(proving.document(small_proof()))
    assert document["schema"] == "mrtuner.report/2"
    validate(document, "mrtuner.report-2.json")
    document["proof"]["loads"][0]["lines"].append({"kind": "splendid"})
    with pytest.raises(jsonschema.ValidationError, match="splendid"):
        validate(document, "mrtuner.report-2.json")


def test_a_series_satisfies_its_schema() -> None:
    validate(small_proof().series.to_dict(), "mrtuner.series-1.json")


def test_a_head_of_a_record_satisfies_its_schema() -> None:
    head = as_builtins(small_proof().series.measured[0].head)
    validate(head, "mrtuner.bench.run-2.json")
    with pytest.raises(jsonschema.ValidationError, match="splendid"):
        validate(head | {"local": "splendid"}, "mrtuner.bench.run-2.json")


def validate(document: Any, name: str) -> None:
    """Validate a document as JSON has it, with lists for tuples."""
    jsonschema.validate(json.loads(json.dumps(document)), schema_of(name))


def small_proof() -> Proof:
    """A proof of one load, written down."""
    return Proof(
        tuning=mrtuner.tune(memory="1GB", cpus=1),
        series=a_series(
            a_load("reads", 1.5), left_out=(LeftOut(title="a", why="b", remedy="c"),), busy="5%"
        ),
        applied=SettingsPlan(steps=()),
    )


def test_every_schema_has_its_section() -> None:
    """The schemas are searched for in the source, so that a new one is not forgotten."""
    source = (
        path.read_text(encoding="utf-8") for path in DOCS.parent.glob("packages/*/src/**/*.py")
    )
    schemas = {match for text in source for match in re.findall(r'"(mrtuner\.[a-z.]+/\d+)"', text)}
    assert len(schemas) >= 6
    assert schemas == set(re.findall(r"^## `(mrtuner\.[a-z.]+/\d+)`", PAGE, re.MULTILINE))
