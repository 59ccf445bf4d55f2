"""Kubernetes: a strategic merge patch for a Deployment.

Source: Kubernetes documentation, Update API Objects in Place Using kubectl patch: containers are
merged by name, and null removes a key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from mrtuner.formats.line import one_line
from mrtuner.units import MiB
from mrtuner_pods.formats.model import PUMA, Application


def write(application: Application) -> str:
    return "\n".join(_rows(application)) + "\n"


def _rows(application: Application) -> Iterator[str]:
    yield f"# {one_line(application.title)}"
    yield from _head(application)
    yield "  template:"
    yield "    spec:"
    yield "      containers:"
    known = application.deployment
    yield (
        f"        - name: {json.dumps(known.container)}"
        if known
        else ("        - name: app  # the name of your container")
    )
    yield from _environment(application)
    yield from _resources(application)


def _head(application: Application) -> Iterator[str]:
    known = application.deployment
    if known is None:
        yield "# Name your container, then: kubectl patch deployment NAME --patch-file FILE"
        yield "# With a HorizontalPodAutoscaler these replicas are its minReplicas instead."
        yield "spec:"
        yield f"  replicas: {application.pods}"
        return
    place = "" if known.namespace is None else f" -n {one_line(known.namespace)}"
    what = f"{known.kind.lower()} {one_line(known.name)}"
    yield f"# kubectl patch {what}{place} --patch-file FILE"
    if known.in_command:
        yield "# The command's own options win over these variables: change them there, too."
    yield "apiVersion: apps/v1"
    yield f"kind: {known.kind}"
    yield "metadata:"
    yield f"  name: {json.dumps(known.name)}"
    if known.namespace is not None:
        yield f"  namespace: {json.dumps(known.namespace)}"
    yield "spec:"
    if known.autoscaler is None:
        yield f"  replicas: {application.pods}"
    else:
        yield f"  # No replicas: the autoscaler decides them ({one_line(known.autoscaler)})."
        yield f"  # Set its minReplicas to {application.pods} for this load."


def _environment(application: Application) -> Iterator[str]:
    """Yield the variables that set workers and threads unless the server's configuration does."""
    known = application.deployment
    workers = known.workers_variable if known else None
    threads = known.threads_variable if known else None
    if application.server in {*PUMA, "gunicorn", "gthread"}:
        workers = workers or "WEB_CONCURRENCY"
    if application.server in PUMA:
        threads = threads or "RAILS_MAX_THREADS"
    given = {
        name: number
        for name, number in ((workers, application.workers), (threads, application.threads))
        if name is not None
    }
    if not given:
        return
    yield "          env:"
    for name, number in given.items():
        yield f"            - name: {name}"
        yield f'              value: "{number}"'
        if known is not None and name in known.elsewhere:
            yield "              valueFrom: null"


def _resources(application: Application) -> Iterator[str]:
    """Yield requests and limits; what is unknown is left out, which keeps what is there."""
    request, limit = application.cpu_request, application.cpu_limit
    memory = None if application.memory is None else f'"{-(-application.memory // MiB)}Mi"'
    if request is None:
        yield "          # The CPU request and limit stay as they are: plan them with --cpu-time."
        if memory is None:
            return
    yield "          resources:"
    yield "            requests:"
    if request is not None:
        yield "              # p95 of the CPU use in each second as planned, at least its mean"
        yield f'              cpu: "{millicores(request)}"'
    if memory:
        yield f"              memory: {memory}"
    yield "            limits:"
    if request is not None:
        yield f"              # {one_line(application.cpu_because)}"
        quoted = "null" if limit is None else f'"{millicores(limit)}"'
        yield f"              cpu: {quoted}"
    if memory:
        yield "              # master and workers at their peaks"
        yield f"              memory: {memory}"


def millicores(cpus: float) -> str:
    """Return CPUs as Kubernetes writes them: ``1250m``."""
    return f"{round(cpus * 1000)}m"
