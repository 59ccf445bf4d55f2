"""Convert a plan to the data that the formats of an application write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mrtuner_pods.formats import Application, Deployment
from mrtuner_pods.wording import milliseconds

if TYPE_CHECKING:
    from mrtuner_pods.planning.model import Plan


def application(plan: Plan) -> Application:
    """Return the plan as the data that these formats write."""
    question, layout, found = plan.question, plan.layout, plan.present
    return Application(
        title=f"for {question.rate:g}/s of {milliseconds(question.service.mean)}; "
        f"95 % wait at most {milliseconds(plan.waiting.p95)}",
        server=question.server,
        pods=layout.pods,
        workers=layout.workers,
        threads=layout.threads,
        pool=plan.connections.pool,
        cpu_request=plan.cpu.request if question.cpu_given else None,
        cpu_limit=plan.cpu.limit,
        cpu_because=plan.cpu.because,
        memory=plan.memory,
        clients=plan.connections.rollout,
        server_connections=question.pooler or plan.connections.server_connections,
        deployment=None if found is None else Deployment(
            kind=found.kind, name=found.name, namespace=found.namespace, container=found.container,
            autoscaler=found.autoscaler, in_command=found.in_command,
            workers_variable=found.variables.workers, threads_variable=found.variables.threads,
            elsewhere=found.variables.elsewhere,
        ),
    )  # fmt: skip
