"""Poolers that operators start, and objects of operators that may start anything.

Sources: CloudNativePG 1.24, Pooler; Zalando's operator 1.13, connection_pooler.go and reference of
operator parameters; Crunchy's operator 5.7, internal/pgbouncer/config.go.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any, Final

from mrtuner.facts import Fact, Missing
from mrtuner_pods.connections.manifest import Place, Resource
from mrtuner_pods.connections.model import Workload
from mrtuner_pods.connections.rollouts import QUARTER, rollout

#: Groups of API whose objects start no client of a database: Kubernetes' own end on k8s.io or have
#: no dot; the others serve PostgreSQL itself, certificates, networks, monitoring, secrets.
_OWN: Final = (
    ".k8s.io", "postgresql.cnpg.io", "acid.zalan.do", "crunchydata.com", "cert-manager.io",
    "monitoring.coreos.com", "istio.io", "external-secrets.io", "bitnami.com", "traefik.io",
    "traefik.containo.us", "keda.sh", "cilium.io",
)  # fmt: skip
#: What an object says whose operator may start clients of a database.
_MENTIONED: Final = re.compile(r"postgres|jdbc|database", re.IGNORECASE)
#: Zalando's defaults: pods of the pooler, and the connections of all of them.
_ZALANDO_PODS, _ZALANDO_MOST, _ZALANDO_CLIENTS = 2, 60, 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatedPooler:
    """A PgBouncer that an operator starts."""

    workload: Workload  # its pods
    text: str  # its pgbouncer.ini
    where: str
    name: str  # by which clients reach it
    missing: Missing | None = None  # what its object leaves to the operator


def pooler_of(one: Resource) -> OperatedPooler | None:
    """Return the pooler that an object of an operator asks for; None if it asks for none."""
    if one.kind == "Pooler":
        return _cloudnativepg(one)
    if one.kind == "postgresql":
        enabled = one.at("spec", "enableConnectionPooler").value
        wanted = enabled is None and one.at("spec", "connectionPooler").value is not None
        return _zalando(one) if enabled is True or wanted else None
    if one.kind == "PostgresCluster" and one.at("spec", "proxy", "pgBouncer").value is not None:
        return _crunchy(one)
    return None


def may_connect(one: Resource) -> Missing | None:
    """Return an object of an unknown kind that mentions a database: its operator may start pods."""
    group = str(one.body.get("apiVersion") or "").partition("/")[0]
    own = "." not in group or group.endswith(_OWN)
    if own or not _MENTIONED.search(json.dumps(one.body, default=str)):
        return None
    why = "it mentions a database, and what its operator starts is not known"
    return Missing(f"{one.kind} {one.name}", why, hint=f"--also {one.name}=N counts it")


def _cloudnativepg(one: Resource) -> OperatedPooler:
    own = one.at("spec", "pgbouncer")
    settings = own.at("parameters").mapping()
    settings.setdefault("pool_mode", own.at("poolMode").value or "session")
    host = f"{one.at('spec', 'cluster', 'name').value}-rw"
    return _made(one, one.at("spec", "instances"), 1, host, settings, name=one.name)


def _zalando(one: Resource) -> OperatedPooler:
    """The operator divides the connections among the pods, and a pool takes half of a pod's."""
    own = one.at("spec", "connectionPooler")
    pods = own.at("numberOfInstances").whole(1) or _ZALANDO_PODS
    each = (own.at("maxDBConnections").whole(1) or _ZALANDO_MOST) // pods
    settings = {
        "pool_mode": own.at("mode").value or "transaction",
        "max_db_connections": each,
        "default_pool_size": each // 2,
        "reserve_pool_size": each // 4,
        "max_client_conn": _ZALANDO_CLIENTS,
        "auth_user": own.at("user").value or "pooler",
    }
    made = _made(one, own.at("numberOfInstances"), _ZALANDO_PODS, one.name, settings,
                 name=f"{one.name}-pooler")  # fmt: skip
    if own.at("maxDBConnections").value is not None:
        return made
    why = (
        "the operator puts a pooler before it, whose connections its own settings decide; its "
        f"default of {_ZALANDO_MOST} is counted"
    )
    hint = "give spec.connectionPooler.maxDBConnections, or --pgbouncer FILE"
    return replace(made, missing=Missing(f"{one.kind} {one.name}", why, hint=hint))


def _crunchy(one: Resource) -> OperatedPooler:
    own = one.at("spec", "proxy", "pgBouncer")
    settings = own.at("config", "global").mapping()
    return _made(one, own.at("replicas"), 1, f"{one.name}-primary", settings,
                 name=f"{one.name}-pgbouncer")  # fmt: skip


def _made(
    one: Resource, pods: Place, usual: int, host: str, settings: dict[str, Any], *, name: str
) -> OperatedPooler:  # fmt: skip
    desired = pods.counted(usual, f"{one.where}: default of the operator", least=1)
    quarter = Fact(QUARTER, "default of Kubernetes")
    workload = Workload(name=one.name, kind=one.kind, where=one.where, pools=(),
                        rollout=rollout(desired, quarter, quarter))  # fmt: skip
    lines = "\n".join(f"{key} = {value}" for key, value in settings.items())
    text = f"[databases]\n* = host={host}\n[pgbouncer]\n{lines}"
    return OperatedPooler(
        workload=workload, text=text, where=f"{one.where} {one.kind} {one.name}", name=name
    )
