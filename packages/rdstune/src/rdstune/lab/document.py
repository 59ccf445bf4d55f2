"""What the lab prints when it is ready, as JSON: ``mrtuner.rds.lab/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from mrtuner.documents import Doc, Document, Struct, field

if TYPE_CHECKING:
    from rdstune.lab import Lab


class LabInstance(Struct):
    """One instance."""

    identifier: Annotated[str, Doc("its name")]
    region: Annotated[str, Doc("where it is")]
    class_name: Annotated[str, Doc("its class, such as db.r6g.xlarge")] = field(name="class")
    engine: Annotated[str, Doc("postgres or aurora-postgresql")]
    version: Annotated[str, Doc("the engine's")]
    status: Annotated[str, Doc("as AWS gives it")]
    dsn: Annotated[
        str | None,
        Doc("connection string, which names a file with the password; null with `--no-servers`"),
    ]


class LabDocument(Document, tag="mrtuner.rds.lab/1"):
    """Written by `rdstune lab start --json` when the lab is ready."""

    endpoint_url: Annotated[str, Doc("where it listens")]
    environment: Annotated[dict[str, str], Doc("variables that lead AWS SDKs to it, by name")]
    instances: Annotated[list[LabInstance], Doc("those that exist")]


def lab_document(lab: Lab, *, servers: bool) -> LabDocument:
    """Return all that a program needs to use the lab."""
    return LabDocument(
        endpoint_url=lab.endpoint_url,
        environment=lab.environment,
        instances=[
            LabInstance(
                identifier=one.identifier,
                region=one.region,
                class_name=one.class_name,
                engine=one.engine,
                version=one.version,
                status=one.status,
                dsn=lab.dsn(one.identifier, one.region) if servers else None,
            )
            for one in lab.instances()
        ],
    )
