"""`rdstune snapshots copy --no-wait` as a Lambda function, to be run on a schedule.

Copies take hours, but a function can run for minutes: it starts as many as the destination
accepts and exits; the next run continues from there. Its template (templates/snapshots.yaml)
sets the environment variables it reads: SOURCE_REGION, DESTINATION_REGION, KMS_KEY, KEEP,
INSTANCES.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from mrtuner.errors import BadValue, MrTunerError
from rdstune.fleet.snapshot_copy import Report, copy_snapshots
from rdstune.fleet.snapshots import Job


class SnapshotsNotCopied(MrTunerError):
    """Some snapshot was not copied, or some old copy not deleted; the message names them."""


def handler(event: Mapping[str, Any], context: object) -> dict[str, Any]:  # noqa: ARG001 - Lambda
    """Handle a Lambda call. Raises after trying everything, so that the function counts as failed.

    Returns the document of `rdstune snapshots copy --json`.
    """
    report = copy_snapshots(job_from(os.environ))
    if not report.ok:
        raise SnapshotsNotCopied("; ".join(_failures(report)))
    return report.to_dict()


def job_from(environment: Mapping[str, str]) -> Job:
    """Return the job described by the environment. Raises BadValue for an invalid one."""
    keep = environment.get("KEEP", "")
    if keep and not keep.isdigit():
        raise BadValue(
            f"KEEP is not a whole number: {keep!r}",
            "Set it to the number of copies to keep, or leave it empty.",
        )
    return Job(
        source=_needed(environment, "SOURCE_REGION"),
        destination=environment.get("DESTINATION_REGION") or _needed(environment, "AWS_REGION"),
        kms_key=environment.get("KMS_KEY") or None,
        keep=int(keep) if keep else None,
        instances=frozenset(environment.get("INSTANCES", "").replace(",", " ").split()),
        wait=False,
    )


def template() -> str:
    """Return the text of the CloudFormation template with the AWS::Serverless transform."""
    return (files("rdstune") / "templates" / "snapshots.yaml").read_text(encoding="utf-8")


def _needed(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name)
    if not value:
        raise BadValue(f"{name} is not set", f"Set {name} in the function's environment.")
    return value


def _failures(report: Report) -> list[str]:
    copies = [f"{copy.source}: {copy.error}" for copy in report.copies if copy.error]
    return [*copies, *report.failures]
