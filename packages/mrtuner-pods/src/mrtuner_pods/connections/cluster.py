"""What other objects of a manifest say of a workload: autoscalers, ConfigMaps, Secrets."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Final

from mrtuner.errors import BadValue
from mrtuner.facts import Fact
from mrtuner.wording import enumerated
from mrtuner_pods.connections.container.container import written
from mrtuner_pods.connections.manifest import Resource

#: KEDA's default for maxReplicaCount: keda.sh/v1alpha1.
KEDA_MOST: Final = 100


class KubernetesObjects:
    """What other objects say of a workload."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.scalers: dict[tuple[str, str], list[tuple[str | None, Fact[int]]]] = {}
        self.values: dict[tuple[str, str, str], dict[str, str | None]] = {}
        self.budgets: list[Resource] = []
        for one in resources:
            if one.kind == "HorizontalPodAutoscaler":
                self._autoscaler(one)
            elif one.kind == "ScaledObject":
                self._scaled_object(one)
            elif one.kind == "PodDisruptionBudget":
                self.budgets.append(one)
            elif one.kind in {"ConfigMap", "Secret"}:
                self.values[one.kind, one.namespace, one.name] = entries(one)

    def _autoscaler(self, one: Resource) -> None:
        target = one.at("spec", "scaleTargetRef")
        most = one.at("spec", "maxReplicas")
        number = most.whole(1)
        if number is None:
            raise BadValue(
                f"{one.where}: HorizontalPodAutoscaler {one.name} has no maxReplicas",
                "Kubernetes requires it.",
            )
        least = one.at("spec", "minReplicas").whole()
        if least is not None and least > number:
            raise BadValue(
                f"{most.source}: {number} is less than minReplicas, {least}",
                "Kubernetes refuses it.",
            )
        self._scales(one, str(target.at("kind").value), Fact(number, most.source))

    def _scaled_object(self, one: Resource) -> None:
        target = one.at("spec", "scaleTargetRef")
        why = f"{one.where}: default of KEDA, maxReplicaCount"
        found = one.at("spec", "maxReplicaCount").counted(KEDA_MOST, why, least=1)
        self._scales(one, str(target.at("kind").value or "Deployment"), found)

    def _scales(self, one: Resource, kind: str, most: Fact[int]) -> None:
        name = str(one.at("spec", "scaleTargetRef", "name").value)
        self.scalers.setdefault((kind, name), []).append((_said_namespace(one), most))

    def maxima(self, resource: Resource) -> list[Fact[int]]:
        """The maximum of each autoscaler of a workload.

        Charts name the namespace in some templates only, and kubectl -n gives it to the others.
        """
        own = _said_namespace(resource)
        return [
            most
            for namespace, most in self.scalers.get((resource.kind, resource.name), [])
            if own == namespace or None in {own, namespace}
        ]

    def desired(self, resource: Resource, warnings: list[str]) -> Fact[int]:
        """The most pods that are wanted: an autoscaler's maximum, unless the workload's is higher.

        Contradictions are added to the warnings.
        """
        scalers = self.maxima(resource)
        if len(scalers) > 1:
            warnings.append(
                f"{resource.where}: {resource.name} has {len(scalers)} autoscalers, which work "
                f"against each other: {enumerated(one.source for one in scalers)}"
            )
        replicas = resource.at("spec", "replicas")
        number = replicas.whole()
        most = max(scalers, key=lambda one: one.value, default=None)
        if most is not None and (number is None or number <= most.value):
            return most
        if most is not None:
            warnings.append(
                f"{replicas.source}: {number} is more than its autoscaler's {most.value} "
                f"({most.source}): each time the manifest is applied, there are that many pods"
            )
        return replicas.counted(1, f"{resource.where}: default of Kubernetes, replicas")

    def budget(self, resource: Resource) -> Resource | None:
        """The PodDisruptionBudget that selects a workload's pods, if there is one."""
        labels = resource.at("spec", "template", "metadata", "labels").mapping()
        for one in self.budgets:
            wanted = one.at("spec", "selector", "matchLabels").mapping()
            if one.namespace == resource.namespace and wanted and wanted.items() <= labels.items():
                return one
        return None

    def value(self, kind: str, namespace: str, name: str, key: str) -> str | None:
        """An entry of a ConfigMap or Secret; None if the manifests lack it."""
        return self.values.get((kind, namespace, name), {}).get(key)


def _said_namespace(one: Resource) -> str | None:
    value = one.at("metadata", "namespace").value
    return None if value is None else str(value)


def entries(one: Resource) -> dict[str, str | None]:
    """Return the entries of a ConfigMap or Secret by key, decoded; None: encrypted, or a place
    that another tool fills in.
    """
    found = {str(key): written(value) for key, value in one.at("stringData").mapping().items()}
    for key, value in one.at("data").mapping().items():
        text = written(value) if one.kind == "ConfigMap" else _decoded(str(value))
        found.setdefault(str(key), text)
    return found


def _decoded(text: str) -> str | None:
    try:
        return base64.b64decode(text, validate=True).decode()
    except binascii.Error:
        return None
    except UnicodeDecodeError:  # a key store or the like
        return ""
