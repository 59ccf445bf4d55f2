"""The operators' own Go types, built from their released modules, read our manifests.

The versions are pinned in operators/go.mod. The first run compiles for a minute or two, on a busy
machine for more than four. Crunchy's operator has no versioned module, so its manifest is
checked only against the rules written down in formats/crunchy.py.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from machine import require
from mrtuner.formats import Line, cloudnativepg, parse, render

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).resolve().parents[4]
SOURCE = Path(__file__).parent / "operators"
ENVIRONMENT = os.environ | {
    "GOPATH": str(ROOT / ".cache" / "go"),
    "GOCACHE": str(ROOT / ".cache" / "go-build"),
    "GOFLAGS": "-mod=readonly -modcacherw -buildvcs=false",
}

MODULES = ("github.com/cloudnative-pg/cloudnative-pg", "github.com/zalando/postgres-operator")

Operators = Callable[..., subprocess.CompletedProcess[str]]

VALUES = {
    "shared_buffers": "4GB",
    "checkpoint_completion_target": "0.9",
    "cpu_tuple_cost": "1e-05",
    "autovacuum_work_mem": "-1",
    "jit": "off",
    "track_io_timing": "on",
    "max_connections": "200",
    "log_line_prefix": '%m [%p] it\'s \\ "x": #1 ',
    "x.binary": "0b1",
    "x.octal": "0o17",
    "x.separated": "1_000",
    "x.sexagesimal": "12:30:45",
    "x.null": "~",
    "x.yes": "y",
    "x.infinity": ".inf",
    "x.elephant": "🐘",
}
LINES = [
    Line(name=name, value=value, quoted=False, comment="why", restart=True)
    for name, value in VALUES.items()
]
LIBRARIES = Line(
    name="shared_preload_libraries",
    value="pg_stat_statements, auto_explain",
    quoted=True,
    comment="statistics",
    restart=True,
)


def go(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["go", *arguments], cwd=SOURCE, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def operators(asks: None, tmp_path_factory: pytest.TempPathFactory) -> Operators:
    """Run the checker on a manifest: what it read is on stdout, why it refused is on stderr."""
    require("go")
    if go("mod", "download", *MODULES).returncode:
        pytest.skip("the operators' Go modules cannot be had here")
    program = tmp_path_factory.mktemp("operators") / "operators"
    built = go("build", "-o", str(program), ".")
    assert built.returncode == 0, built.stderr

    def run(manifest: str = "", *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *arguments], input=manifest, capture_output=True, text=True, check=False
        )

    return run


def test_cloudnativepg_understands_every_value(operators: Operators) -> None:
    done = operators(render("cloudnativepg", [*LINES, LIBRARIES], title="a title"))
    assert done.stderr == ""
    assert json.loads(done.stdout) == {
        "parameters": VALUES,
        "libraries": ["pg_stat_statements", "auto_explain"],
    }


def test_zalandos_operator_understands_every_value(operators: Operators) -> None:
    done = operators(render("zalando", LINES, title="a title"))
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"parameters": VALUES, "libraries": None}


@pytest.mark.parametrize("format", ["cloudnativepg", "zalando"])
def test_the_check_itself_refuses_wrong_manifests(operators: Operators, format: str) -> None:
    right = render(format, LINES)
    for wrong in (
        right.replace('"0.9"', "0.9"),
        right.replace('"on"', "on"),
        right.replace("parameters:", "parametres:"),
    ):
        assert wrong != right
        assert operators(wrong).returncode == 1


def test_the_table_of_fixed_parameters_is_cloudnativepgs(operators: Operators) -> None:
    assert set(json.loads(operators("", "-fixed").stdout)) == cloudnativepg.OWNED


def test_zalandos_schema_accepts_the_patched_resource(operators: Operators) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = closed(json.loads(operators("", "-schema").stdout))  # metadata is checked elsewhere
    validator = jsonschema.Draft202012Validator(schema)
    resource = yaml.safe_load(render("zalando", LINES))
    resource["spec"] |= {"teamId": "acid", "numberOfInstances": 2, "volume": {"size": "1Gi"}}
    resource["spec"]["postgresql"]["version"] = "17"
    assert [error.message for error in validator.iter_errors(resource)] == []
    resource["spec"]["postgresql"]["parametres"] = {}
    assert len(list(validator.iter_errors(resource))) == 1


def closed(schema: Any) -> Any:
    """The schema, changed to refuse unknown properties, which Kubernetes would drop silently."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    schema = {key: closed(each) for key, each in schema.items()}
    known = schema.get("properties")
    if not isinstance(known, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return schema
    return {"additionalProperties": False} | schema


def test_kubernetes_understands_the_manifest_of_the_recorder(
    operators: Operators,
) -> None:
    manifest = Path(__file__).parents[4] / "examples" / "record" / "kubernetes.yaml"
    documents = manifest.read_text(encoding="utf-8").split("---\n")
    understood = [operators(one) for one in documents]
    assert [done.stderr for done in understood] == ["", "", ""]
    kinds = [json.loads(done.stdout) for done in understood]
    assert [one["kind"] for one in kinds] == ["Service", "ConfigMap", "StatefulSet"]
    (container,) = kinds[2]["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "record"
    wrong = documents[2].replace("serviceName:", "servicName:")
    assert operators(wrong).returncode == 1


def test_what_the_operators_read_is_what_we_read_back() -> None:
    assert parse("cloudnativepg", render("cloudnativepg", LINES)) == VALUES
    assert parse("zalando", render("zalando", LINES)) == VALUES
