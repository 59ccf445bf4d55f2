"""RDS's refusals: a code for programs to match on, and a message for people.

Codes and HTTP statuses of shapes in botocore's model come from there (`wire.Protocol.status`).
Texts come from public reports where there are any (an unknown parameter, a default group, a
family that is unknown or does not fit, a static parameter set with `immediate`); the others are
guessed.
"""

from __future__ import annotations


class Fault(Exception):
    """One refusal by the service."""

    def __init__(self, code: str, message: str, status: int | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status  # None: the model's own, else 400


def invalid_value(message: str) -> Fault:
    """Return the fault for a value, name or type that RDS does not accept."""
    return Fault("InvalidParameterValue", message)


def invalid_combination(message: str) -> Fault:
    return Fault("InvalidParameterCombination", message)


def denied(service: str, action: str, account: str, region: str) -> Fault:
    """Return IAM's answer when no policy allows the action."""
    return Fault(
        "AccessDenied",
        f"User: arn:aws:iam::{account}:user/lab is not authorized to perform: {service}:{action}"
        f" on resource: arn:aws:{service}:{region}:{account}:* because no identity-based policy"
        f" allows the {service}:{action} action",
        403,
    )
