"""How many pods a workload can have: what is wanted, and what a rollout adds.

Source of defaults: apps/v1, batch/v1.
"""

from __future__ import annotations

import re
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.facts import Fact, Missing
from mrtuner_pods.connections.cluster import KEDA_MOST, KubernetesObjects
from mrtuner_pods.connections.formats import COMPOSE, ECS
from mrtuner_pods.connections.given import Given, fact
from mrtuner_pods.connections.manifest import Place, Resource
from mrtuner_pods.connections.model import Count, Rollout
from mrtuner_pods.connections.schedule import least_gap

#: KEDA's jobs: one for each message or so.
SCALED_JOB: Final = "ScaledJob"
#: Kinds whose pods end by themselves.
ENDING: Final = ("Job", "CronJob")
QUARTER: Final = "25%"
_GRACE: Final = 30


def rollout_of(
    resource: Resource, pod: Place, known: KubernetesObjects, given: Given, warnings: list[str]
) -> Rollout:
    """Return the rollout of a workload; contradictions are added to the warnings."""
    grace = pod.at("terminationGracePeriodSeconds").counted(_GRACE, "default of Kubernetes")
    if resource.kind in (*ENDING, SCALED_JOB):
        return _ending(resource, grace, given)
    if is_per_node(resource):
        return _per_node(resource, grace, given)
    if resource.kind == "Pod":
        return _still(Fact(1, f"{resource.where}: a single pod"), grace)
    desired = fact(given.replicas, resource.name, "--replicas") or known.desired(resource, warnings)
    if resource.kind == COMPOSE:
        return _of_swarm(resource, desired, grace)
    if resource.kind == ECS:
        surge = Fact("100%", "default of ECS, maximumPercent 200")
        return rollout(desired, surge, Fact("0", "default of ECS, minimumHealthyPercent 100"))
    return _of_strategy(resource, desired, grace)


def _of_strategy(resource: Resource, desired: Fact[int], grace: Fact[int]) -> Rollout:
    """What a Deployment's strategy says; the pods of other kinds are replaced one by one."""
    if resource.kind != "Deployment":
        return _still(desired, grace)
    strategy = resource.at("spec", "strategy")
    kind = strategy.at("type")
    if kind.value not in {None, "RollingUpdate", "Recreate"}:
        raise BadValue(
            f"{kind.source}: {kind.value!r} is not a strategy", "Write RollingUpdate or Recreate."
        )
    rolling = strategy.at("rollingUpdate")
    surge, unavailable = _share(rolling.at("maxSurge")), _share(rolling.at("maxUnavailable"))
    return rollout(
        desired, surge, unavailable, replaced_first=kind.value == "Recreate", grace=grace
    )


def _ending(resource: Resource, grace: Fact[int], given: Given) -> Rollout:
    """Pods that end by themselves: of a Job, of a CronJob's runs, of KEDA's jobs."""
    if resource.kind == SCALED_JOB:
        return _scaled_job(resource, grace)
    if resource.kind == "Job":
        return _still(_at_once(resource.at("spec")), grace)
    job = resource.at("spec", "jobTemplate", "spec")
    return _still(_at_once(job), grace, _runs(resource, job, grace, given))


def rollout(
    desired: Fact[int], surge: Fact[str], unavailable: Fact[str], *, replaced_first: bool = False,
    grace: Fact[int] | None = None,
) -> Rollout:  # fmt: skip
    """Return a rollout with `surge` rounded up and `unavailable` down, as Kubernetes does.

    Both are numbers of pods or shares such as 25%. If both are rounded to 0, Kubernetes takes one
    pod away; if both are given as 0, it refuses. Raises BadValue for that, and for other texts.
    """
    if not replaced_first and not _above_zero(surge) and not _above_zero(unavailable):
        raise BadValue(
            f"maxSurge and maxUnavailable are both 0 ({surge.source}; {unavailable.source})",
            "Kubernetes refuses it: no pod could ever be replaced. Raise one of them.",
        )
    more = _part(surge, desired.value, up=True)
    fewer = _part(unavailable, desired.value, up=False)
    if more.value == fewer.value == 0:
        one = f"{unavailable.source}, rounded to 0: Kubernetes takes 1"
        fewer = Fact(min(1, desired.value), one)
    return Rollout(
        desired=desired, surge=more, unavailable=fewer, replaced_first=replaced_first, grace=grace
    )


def _above_zero(share: Fact[str]) -> bool:
    return bool(share.value.removesuffix("%").strip("0"))


def _part(share: Fact[str], of: int, *, up: bool) -> Fact[int]:
    text = share.value
    if not re.fullmatch(r"\d{1,6}%?", text):
        raise BadValue(
            f"{share.source}: {text!r} is neither a number of pods nor a percentage",
            "Write 1, or 25%.",
        )
    number = int(text.removesuffix("%"))
    if not text.endswith("%"):
        return Fact(number, share.source)
    return Fact(-(-number * of // 100) if up else number * of // 100, f"{share.source}, {text}")


def _share(place: Place) -> Fact[str]:
    if place.value is None:
        return Fact(QUARTER, f"default of Kubernetes, {place.path.rpartition('.')[2]}")
    return Fact(str(place.value), place.source)


def _still(desired: Fact[int], grace: Fact[int], runs: Fact[Count] | None = None) -> Rollout:
    """Pods that are replaced one after the other, or not at all."""
    nothing = Fact(0, "no pods are added")
    return Rollout(desired=desired, surge=nothing, unavailable=nothing, replaced_first=True,
                   grace=grace, runs=runs)  # fmt: skip


def is_per_node(resource: Resource) -> bool:
    return resource.kind == "DaemonSet" or resource.at("spec", "mode").value == "global"


def unknown_nodes(resource: Resource, given: Given) -> Missing | None:
    """Return what is missing of a workload with a pod on each node: how many nodes there are."""
    if not is_per_node(resource) or given.nodes is not None:
        return None
    if fact(given.replicas, resource.name, "--replicas") is not None:
        return None
    why = "it has a pod on each node, and a manifest does not say how many nodes there are"
    return Missing(resource.name, f"{why}; one is counted", option="--nodes N")


def _per_node(resource: Resource, grace: Fact[int], given: Given) -> Rollout:
    surge = resource.at("spec", "updateStrategy", "rollingUpdate", "maxSurge")
    nodes = fact(given.replicas, resource.name, "--replicas")
    if nodes is None:
        source = "one node, at least" if given.nodes is None else f"--nodes {given.nodes}"
        nodes = Fact(given.nodes or 1, source)
    if surge.value is None:
        return _still(nodes, grace)
    return rollout(
        nodes, _share(surge), Fact("0", "with a surge, no pod is taken away"), grace=grace
    )


def _of_swarm(resource: Resource, desired: Fact[int], grace: Fact[int]) -> Rollout:
    """A service of Compose: with order start-first, as many start as are updated at once."""
    update = resource.at("spec", "update")
    if update.at("order").value != "start-first":
        return _still(desired, grace)
    together = update.at("parallelism")
    number = together.whole()
    source = together.source if number is not None else "default of Swarm, parallelism"
    # 0 updates all of them at once.
    surge = desired.value if number == 0 else number or 1
    return Rollout(
        desired=desired, surge=Fact(surge, source), unavailable=Fact(0, "start-first"), grace=grace
    )


def _scaled_job(resource: Resource, grace: Fact[int]) -> Rollout:
    """KEDA's ScaledJob: a changed one deletes its jobs, and new ones start at once.

    Source: KEDA 2.15, Scaling Jobs: maxReplicaCount 100, rollout.strategy default.
    """
    most = resource.at("spec", "maxReplicaCount")
    jobs = most.counted(KEDA_MOST, "default of KEDA, maxReplicaCount")
    each = _at_once(resource.at("spec", "jobTargetRef"))
    if each.value != 1:
        source = f"{jobs.value} ({jobs.source}) x {each.value} ({each.source})"
        jobs = Fact(jobs.value * each.value, source)
    strategy = resource.at("spec", "rollout", "strategy").value
    if strategy == "gradual":
        return _still(jobs, grace)
    nothing = Fact(0, "no pods are added")
    return Rollout(desired=jobs, surge=nothing, unavailable=nothing, grace=grace)


def disrupted(budget: Resource, desired: int) -> Fact[int]:
    """Return how many of the desired pods a PodDisruptionBudget lets a drain take at once.

    Both shares are rounded up. Source: Kubernetes, disruption controller.
    """
    most, least = budget.at("spec", "maxUnavailable"), budget.at("spec", "minAvailable")
    if most.value is not None:
        found = _part(Fact(str(most.value), most.source), desired, up=True)
        return Fact(min(desired, found.value), found.source)
    if least.value is None:
        return Fact(desired, f"{budget.where}: neither maxUnavailable nor minAvailable")
    kept = _part(Fact(str(least.value), least.source), desired, up=True)
    return Fact(max(0, desired - kept.value), kept.source)


def _at_once(job: Place) -> Fact[int]:
    """How many pods of one job run at the same time."""
    suspended = job.at("suspend")
    if suspended.value is True:
        return Fact(0, f"{suspended.source}: suspended")
    parallelism, completions = job.at("parallelism"), job.at("completions")
    number, of = parallelism.whole(), completions.whole()
    if number is None:
        return Fact(1, "default of Kubernetes, parallelism")
    if of is not None and of < number:
        return Fact(of, f"{completions.source}, fewer than {parallelism.source}")
    return Fact(number, parallelism.source)


def _runs(resource: Resource, job: Place, grace: Fact[int], given: Given) -> Fact[Count]:
    """How many runs of a CronJob there can be at the same time."""
    said = fact(given.runs, resource.name, "--runs")
    if said is not None:
        return Fact(said.value, said.source)
    if resource.at("spec", "suspend").value is True:
        return Fact(0, f"{resource.at('spec', 'suspend').source}: suspended")
    policy = resource.at("spec", "concurrencyPolicy")
    if policy.value == "Forbid":
        return Fact(1, f"{policy.source}: Forbid")
    if policy.value == "Replace":
        return Fact(2, f"{policy.source}: Replace, and the run that it ends")
    if policy.value not in {None, "Allow"}:
        raise BadValue(
            f"{policy.source}: {policy.value!r} is not a policy", "Write Allow, Forbid or Replace."
        )
    deadline = job.at("activeDeadlineSeconds")
    most, schedule = deadline.whole(1), resource.at("spec", "schedule")
    if most is None:
        return Fact(
            None,
            f"{policy.source if policy.value else resource.where}: concurrencyPolicy is Allow"
            f"{'' if policy.value else ' by default'}, so long runs pile up; set Forbid, "
            f"or activeDeadlineSeconds, or give --runs {resource.name}=N",
        )
    gap = least_gap(str(schedule.value or ""))
    alive = most + grace.value
    return Fact(alive // gap + 1, f"{deadline.source}, {alive} s with the grace; {schedule.source}")
