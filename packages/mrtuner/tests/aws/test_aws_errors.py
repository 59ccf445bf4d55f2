"""Botocore's errors are translated: what went wrong, and the next step."""

from __future__ import annotations

import botocore.exceptions as b
import pytest

from mrtuner.aws.errors import AwsError, translated
from mrtuner.aws.session import Account, client


def said(error: Exception, region: str | None = "eu-west-1") -> AwsError:
    """The error that an error of botocore is translated into."""
    with pytest.raises(AwsError) as raised, translated("rds:ModifyDBInstance", region):
        raise error
    return raised.value


def refusal(code: str, message: str = "") -> b.ClientError:
    return b.ClientError({"Error": {"Code": code, "Message": message}}, "ModifyDBInstance")


def test_a_denial_names_the_action_that_is_missing() -> None:
    error = said(
        refusal(
            "AccessDenied",
            "User: arn:aws:iam::123456789012:user/ann is not authorized to perform:"
            " rds:AddTagsToResource on resource: arn:aws:rds:eu-west-1:123456789012:db:x",
        )
    )
    assert error.message == "AWS denies rds:AddTagsToResource in eu-west-1"
    assert error.hint == "Allow rds:AddTagsToResource for this identity in IAM."
    assert error.denied


def test_a_denial_without_words_names_the_action_that_was_called() -> None:
    assert said(refusal("AccessDenied")).message == "AWS denies rds:ModifyDBInstance in eu-west-1"


@pytest.mark.parametrize("code", ["Throttling", "RequestLimitExceeded", "ThrottlingException"])
def test_throttling_is_told_apart(code: str) -> None:
    error = said(refusal(code, "Rate exceeded"))
    assert error.throttled
    assert (
        error.message == "AWS still throttles rds:ModifyDBInstance in eu-west-1 after every retry"
    )


@pytest.mark.parametrize("code", ["DBInstanceNotFound", "DBClusterNotFoundFault"])
def test_what_is_not_there_may_be_in_another_region(code: str) -> None:
    error = said(refusal(code, "DBInstance db1 not found."))
    assert error.not_found
    assert error.message == "DBInstance db1 not found in eu-west-1"
    assert error.hint is not None
    assert "--region" in error.hint


def test_an_expired_session_says_to_sign_in_again() -> None:
    assert said(refusal("ExpiredToken")).message == "the AWS credentials have expired"


def test_unknown_keys_are_not_repeated() -> None:
    error = said(refusal("InvalidClientTokenId", "The security token AKIAXYZ is invalid."))
    assert (
        error.message == "AWS does not accept these credentials in eu-west-1 (InvalidClientTokenId)"
    )
    assert "AKIAXYZ" not in f"{error.message} {error.hint}"


def test_any_other_refusal_keeps_its_code_and_words() -> None:
    error = said(refusal("InvalidParameterCombination", "no."))
    assert error.code == "InvalidParameterCombination"
    assert error.message == (
        "rds:ModifyDBInstance failed in eu-west-1: InvalidParameterCombination: no"
    )


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (b.NoCredentialsError(), "no AWS credentials found"),
        (b.NoRegionError(), "no AWS region is set"),
        (b.ProfileNotFound(profile="work"), "AWS profile 'work' does not exist"),
        (
            b.EndpointConnectionError(endpoint_url="https://rds.example"),
            "cannot reach AWS in eu-west-1 at https://rds.example",
        ),
        (
            b.ConnectTimeoutError(endpoint_url="https://rds.example"),
            "cannot reach AWS in eu-west-1 at https://rds.example",
        ),
        (
            b.ReadTimeoutError(endpoint_url="https://rds.example"),
            "the connection to AWS in eu-west-1 broke during rds:ModifyDBInstance",
        ),
        (b.UnauthorizedSSOTokenError(), "the AWS sign-in has ended"),
    ],
)
def test_what_never_reached_aws_says_why(error: Exception, message: str) -> None:
    found = said(error)
    assert found.message == message
    assert found.hint is not None
    assert found.code == ""


def test_an_error_of_botocore_that_we_do_not_know_keeps_its_words() -> None:
    error = said(b.ParamValidationError(report="x is wrong"))
    assert error.message == (
        "rds:ModifyDBInstance failed in eu-west-1: ParamValidationError: "
        "Parameter validation failed: x is wrong"
    )


def test_a_profile_that_is_not_there_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with pytest.raises(AwsError, match="AWS profile 'nobody' does not exist"):
        client("rds", Account(region="eu-west-1", profile="nobody"))


def test_without_any_region_the_hint_says_how_to_name_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    with pytest.raises(AwsError) as raised:
        client("rds")
    assert raised.value.hint == "Use --region or set AWS_REGION."


@pytest.mark.parametrize("region", ["not a region", "eu_west_1"])
def test_a_region_that_cannot_be_one_is_refused(region: str) -> None:
    with pytest.raises(AwsError, match="not an AWS region"):
        client("rds", Account(region=region))


def test_retries_of_the_environment_are_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    assert client("rds").meta.config.retries == {"mode": "adaptive", "total_max_attempts": 10}
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "2")
    monkeypatch.setenv("AWS_RETRY_MODE", "standard")
    assert client("rds").meta.config.retries == {"mode": "standard", "total_max_attempts": 2}
