"""Manifests for the tests, as short as they can be."""

from __future__ import annotations

from textwrap import dedent, indent

from mrtuner_pods.connections import Check, Database, Given, Manifest, check, numbers

URL = "postgres://shop:secret@db/shop"


def deployment(
    name: str = "web", replicas: object = 4, *, spec: str = "", pod: str = "", container: str = "",
    command: str = '["puma"]', env: dict[str, str] | None = None, kind: str = "Deployment",
) -> str:  # fmt: skip
    """One workload with one container; the texts are YAML lines, inserted at their places."""
    variables = "".join(
        f"            - {{name: {key}, value: '{value}'}}\n"
        for key, value in ({"DATABASE_URL": URL} if env is None else env).items()
    )
    lines = [
        "apiVersion: apps/v1",
        f"kind: {kind}",
        f"metadata: {{name: {name}}}",
        "spec:",
        *([f"  replicas: {replicas}"] if replicas is not None else []),
        *_at(2, spec),
        "  template:",
        "    spec:",
        *_at(6, pod),
        "      containers:",
        "        - name: app",
        f"          command: {command}",
        *_at(10, container),
        *(["          env:", variables.rstrip()] if variables else []),
        "---",
        "",
    ]
    return "\n".join(lines)


def _at(depth: int, text: str) -> list[str]:
    return [indent(dedent(text).strip("\n"), " " * depth)] if text else []


def autoscaler(most: object = 10, name: str = "web", kind: str = "Deployment") -> str:
    return dedent(f"""\
        apiVersion: autoscaling/v2
        kind: HorizontalPodAutoscaler
        metadata: {{name: {name}}}
        spec:
          scaleTargetRef: {{kind: {kind}, name: {name}}}
          maxReplicas: {most}
        ---
        """)


def cron_job(spec: str = "", job: str = "", name: str = "nightly") -> str:
    lines = [
        "apiVersion: batch/v1", "kind: CronJob", f"metadata: {{name: {name}}}", "spec:",
        '  schedule: "*/10 * * * *"', *_at(2, spec),
        "  jobTemplate:", "    spec:", *_at(6, job),
        "      template:", "        spec:", "          containers:",
        "            - name: task", '              command: ["rake", "tidy"]',
        "              env:", f"                - {{name: DATABASE_URL, value: '{URL}'}}",
        "---", "",
    ]  # fmt: skip
    return "\n".join(lines)


def checked(*texts: str, most: int = 1000, given: Given | None = None, **more: object) -> Check:
    """Check these manifests against `most` connections, none of them reserved."""
    manifest = Manifest("".join(texts), "app.yaml")
    return check(plain(most), [manifest], given=given, **more)  # type: ignore[arg-type]


def plain(most: int) -> Database:
    """A database that admits `most` connections and reserves none."""
    return numbers(most, reserved=0)
