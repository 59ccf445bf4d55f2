"""The rotation function of AWS Secrets Manager: its four steps, for a blue/green group.

Source: Secrets Manager User Guide, "Lambda rotation functions" and "alternating users". The secret
of the user who may administer the group is named by ADMIN_SECRET_ARN in the environment, or by
the key masterarn in the secret itself, as in AWS's own functions. A function can run for minutes,
but applications may take hours: the role that was in use can log in until its next turn, or until
`mrtuner rotate` disables it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue, Refused
from mrtuner.postgres.connect import connect
from mrtuner.rotate import equalize, login, roles
from mrtuner.rotate.model import Credential, Holder, RoleGroup
from mrtuner.rotate.secretsmanager import CURRENT, PENDING, Secret

if TYPE_CHECKING:
    from mrtuner.postgres.connect import Connection


def handler(event: Mapping[str, Any], context: object) -> None:  # noqa: ARG001 - Lambda
    """Handle a call from Secrets Manager: four per rotation, and each step may be repeated."""
    step, token = str(event.get("Step")), str(event.get("ClientRequestToken"))
    if step not in _STEPS:
        raise BadValue(f"unknown rotation step: {step!r}", f"Use one of {', '.join(_STEPS)}.")
    secret = Secret(str(event.get("SecretId")))
    if secret.holder(CURRENT) != token:  # else it has already been done
        _STEPS[step](secret, token)


def _create(secret: Secret, token: str) -> None:
    """createSecret: store the other role and a new password as AWSPENDING."""
    if secret.version(stage=PENDING, token=token) is not None:
        return
    current = _needed(secret.read())
    group = _group(current)
    other = {"username": group.after(str(current["username"])), "password": roles.new_password()}
    secret.put({**current, **other}, token=token, stage=PENDING)


def _set(secret: Secret, token: str) -> None:
    """setSecret: make the other role equal, then give it the password and LOGIN."""
    current, pending = _needed(secret.read()), _pending(secret, token)
    group = _group(current)
    with connect(_dsn(_admin(current), at=current)) as conn, roles.alone(conn, group):
        _refuse_used(roles.sessions_of(conn, str(pending["username"])))
        equalize.prepare(conn, group, str(current["username"]))
        roles.enable(conn, str(pending["username"]), str(pending["password"]))


def _test(secret: Secret, token: str) -> None:
    """testSecret: log in with the pending secret."""
    pending = _pending(secret, token)
    credential = Credential(
        username=str(pending["username"]),
        password=str(pending["password"]),
        host=str(pending.get("host", "")),
        port=int(pending.get("port", 5432)),
        dbname=str(pending.get("dbname", "postgres")),
    )
    login.try_login(_dsn(pending, at=pending), credential, _group(pending))


def _finish(secret: Secret, token: str) -> None:
    """finishSecret: make the pending secret current.

    The role that was in use before the first rotation has no turn of its own: the second disables
    it, unless somebody uses it. Its password stays, so that ALTER ROLE … LOGIN takes that back.
    """
    current = _needed(secret.read())
    group = _group(current)
    if current["username"] != group.name:
        with connect(_dsn(_admin(current), at=current)) as conn, roles.alone(conn, group):
            _close_unused(conn, group)
    secret.promote(token)


def _close_unused(conn: Connection, group: RoleGroup) -> None:
    if roles.read_roles(conn, group)[group.name].login and not _used(conn, group):
        roles.close(conn, group.name)
        if _used(conn, group):
            roles.open_again(conn, group.name)


def _used(conn: Connection, group: RoleGroup) -> bool:
    return bool(roles.sessions_of(conn, group.name))


_STEPS: Final[Mapping[str, Callable[[Secret, str], None]]] = {
    "createSecret": _create,
    "setSecret": _set,
    "testSecret": _test,
    "finishSecret": _finish,
}


def _group(contents: Mapping[str, Any]) -> RoleGroup:
    """Return the group: GROUP in the environment, else the user's name without its colour."""
    name = str(contents["username"])
    group = RoleGroup(os.environ.get("GROUP") or name.removesuffix("_blue").removesuffix("_green"))
    if name not in group.roles:
        raise BadValue(
            f"the secret is for {name}, which is not a role of {group.name}",
            f"Store one for {', '.join(group.roles)}, or set GROUP in the function's environment.",
        )
    return group


def _admin(current: Mapping[str, Any]) -> Mapping[str, Any]:
    arn = os.environ.get("ADMIN_SECRET_ARN") or current.get("masterarn")
    if not arn:
        raise BadValue(
            "no administrator secret is set",
            "Set ADMIN_SECRET_ARN in the function's environment, or masterarn in the secret.",
        )
    return _needed(Secret(str(arn)).read())


def _refuse_used(sessions: tuple[Holder, ...]) -> None:
    """Refuse if the other role is in use: its users would be locked out. AWS retries later."""
    users = [each for each in sessions if each.application != roles.OURS]
    if users:
        raise Refused(
            f"the next role is in use: {users[0].words}",
            "Let the application read the secret again; the next attempt continues.",
        )


def _pending(secret: Secret, token: str) -> dict[str, Any]:
    return _needed(secret.version(stage=PENDING, token=token))


def _needed(contents: dict[str, Any] | None) -> dict[str, Any]:
    missing = {"username", "password"} - (contents or {}).keys()
    if contents is None or missing:
        raise BadValue(
            "the secret has no username and password",
            "Store both, and host, port and dbname, as key/value pairs.",
        )
    return contents


def _dsn(who: Mapping[str, Any], *, at: Mapping[str, Any]) -> str:
    from psycopg.conninfo import make_conninfo

    return make_conninfo(
        host=at.get("host"), port=at.get("port", 5432), dbname=at.get("dbname", "postgres"),
        user=who["username"], password=who["password"],
    )  # fmt: skip
