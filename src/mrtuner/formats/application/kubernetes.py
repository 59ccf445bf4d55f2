"""Kubernetes: a strategic merge patch for a Deployment.

Source: Kubernetes documentation, Update API Objects in Place Using kubectl patch: containers are
merged by name, and null takes a key away.
"""

from __future__ import annotations

from collections.abc import Iterator

from mrtuner.formats.application.model import Application, ApplicationFormat
from mrtuner.formats.line import one_line
from mrtuner.units import MiB


def write(application: Application) -> str:
    """Return the patch."""
    return "\n".join(_rows(application)) + "\n"


def _rows(application: Application) -> Iterator[str]:
    memory = None if application.memory is None else f'"{-(-application.memory // MiB)}Mi"'
    yield f"# {one_line(application.title)}"
    yield "# Name your container, then: kubectl patch deployment NAME --patch-file FILE"
    yield "# With a HorizontalPodAutoscaler these replicas are its minReplicas instead."
    yield "spec:"
    yield f"  replicas: {application.pods}"
    yield "  template:"
    yield "    spec:"
    yield "      containers:"
    yield "        - name: app  # the name of your container"
    yield from _environment(application)
    yield "          resources:"
    yield "            requests:"
    yield "              # p95 of use over seconds at the planned rate"
    yield f'              cpu: "{_millicores(application.cpu_request)}"'
    if memory:
        yield f"              memory: {memory}"
    yield "            limits:"
    yield f"              # {one_line(application.cpu_because)}"
    limit = application.cpu_limit
    quoted = "null" if limit is None else f'"{_millicores(limit)}"'
    yield f"              cpu: {quoted}"
    if memory:
        yield "              # master and workers at their peaks"
        yield f"              memory: {memory}"


def _environment(application: Application) -> Iterator[str]:
    """What Puma and gunicorn read where their configuration does not say otherwise."""
    given = {"WEB_CONCURRENCY": application.workers}
    if application.server == "puma":
        given["RAILS_MAX_THREADS"] = application.threads
    elif application.server not in {"gunicorn", "gthread"}:
        return
    yield "          env:"
    for name, number in given.items():
        yield f"            - name: {name}"
        yield f'              value: "{number}"'


def _millicores(cpus: float) -> str:
    return f"{round(cpus * 1000)}m"


FORMAT = ApplicationFormat(
    name="kubernetes", summary="a strategic merge patch for a Deployment", write=write
)
