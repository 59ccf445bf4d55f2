"""AWS Secrets Manager as a store.

AWS moves the stage AWSCURRENT to a new version, and AWSPREVIOUS to the one before, in one step: a
reader sees one or the other. Source: Secrets Manager API Reference, PutSecretValue.
"""

from __future__ import annotations

import json
from typing import Any, Final

from mrtuner.aws.calls import call
from mrtuner.aws.errors import AwsError
from mrtuner.aws.session import Account, client
from mrtuner.errors import BadValue
from mrtuner.rotate.model import Credential

CURRENT: Final = "AWSCURRENT"
PENDING: Final = "AWSPENDING"
PREVIOUS: Final = "AWSPREVIOUS"
_NO_VERSION: Final = "ResourceNotFoundException"  # for a missing secret and a missing version alike


class Secret:
    """A secret, by its ARN or name. Other keys in it are kept."""

    readable = True

    def __init__(self, arn: str) -> None:
        self.arn = arn
        self.service = client("secretsmanager", Account(region=_region(arn)))

    def check(self) -> None:
        """Raise BadValue if the secret is missing or not an object, AwsError if AWS fails."""
        try:
            self.read()
        except AwsError as error:
            if error.code != _NO_VERSION:
                raise
            raise BadValue(
                f"secret {self.arn} does not exist: {error.message}",
                "Create it first, or correct its name: aws secretsmanager list-secrets.",
            ) from None

    def write(self, credential: Credential) -> None:
        self.put(credential.within(self.read() or {}))

    def put(self, contents: dict[str, Any], *, token: str = "", stage: str = CURRENT) -> None:
        """Add a version with these contents; repeating a token does not add another version."""
        version = {"ClientRequestToken": token} if token else {}
        call(
            self.service, "put_secret_value", SecretId=self.arn,
            SecretString=json.dumps(contents), VersionStages=[stage], **version,
        )  # fmt: skip

    def read(self) -> dict[str, Any] | None:
        """Return the current version; None while there is none."""
        return self.version(stage=CURRENT)

    def version(self, *, stage: str, token: str = "") -> dict[str, Any] | None:
        """Return a version as an object; None if missing. BadValue when it is not a JSON object."""
        which = {"VersionId": token} if token else {}
        try:
            answer = call(
                self.service, "get_secret_value", SecretId=self.arn, VersionStage=stage, **which
            )
        except AwsError as error:
            if (
                error.code == _NO_VERSION and self.describe()
            ):  # the secret exists, but not this version
                return None
            raise
        return _contents(answer.get("SecretString", ""))

    def restore(self, username: str) -> bool:
        """Make the previous version current again, if it has that role."""
        previous = self.holder(PREVIOUS)
        if previous is None or (self.version(stage=PREVIOUS) or {}).get("username") != username:
            return False
        self.promote(previous)
        return True

    def promote(self, version: str) -> None:
        """Move AWSCURRENT to a version; AWS then moves AWSPREVIOUS itself."""
        current = self.holder(CURRENT)
        if current != version:
            away = {"RemoveFromVersionId": current} if current else {}
            call(
                self.service, "update_secret_version_stage", SecretId=self.arn,
                VersionStage=CURRENT, MoveToVersionId=version, **away,
            )  # fmt: skip

    def holder(self, stage: str) -> str | None:
        versions = self.describe().get("VersionIdsToStages", {})
        return next((name for name, stages in versions.items() if stage in stages), None)

    def describe(self) -> Any:
        """Return everything about the secret except its contents."""
        return call(self.service, "describe_secret", SecretId=self.arn)


def _region(arn: str) -> str | None:
    """Return the secret's own region: calls must go there, even from other regions."""
    parts = arn.split(":")
    return parts[3] if len(parts) > 6 and parts[0] == "arn" else None


def _contents(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadValue(
            "the secret is not a JSON object",
            "Store username and password as key/value pairs.",
        )
    return found
