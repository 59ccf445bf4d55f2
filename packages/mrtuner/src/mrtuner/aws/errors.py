"""Translate botocore's errors into one, with AWS's code and the next step to take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mrtuner.errors import MrTunerError

#: Source: botocore/retries/standard.py, the codes that it retries as throttling.
THROTTLED: Final = frozenset({
    "Throttling", "ThrottlingException", "ThrottledException", "RequestThrottled",
    "RequestThrottledException", "RequestLimitExceeded", "TooManyRequestsException", "SlowDown",
})  # fmt: skip
#: Source: "Common Errors" of the Amazon RDS and EC2 API references.
DENIED: Final = frozenset({
    "AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError",
    "NotAuthorized",
})  # fmt: skip
_EXPIRED: Final = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_UNKNOWN_KEY: Final = frozenset({
    "InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "AuthFailure",
    "InvalidAccessKeyId", "IncompleteSignature",
})  # fmt: skip
_NO_BUCKET: Final = "NoSuchBucket"
_NOT_FOUND: Final = re.compile(r"NotFound(Fault)?$")
#: IAM's wording: "User: arn:… is not authorized to perform: rds:ModifyDBParameterGroup on …".
_DENIED_ACTION: Final = re.compile(r"not authorized to perform: ([a-z0-9-]+:[A-Za-z*]+)")


class AwsError(MrTunerError):
    """A request to AWS failed or could not be sent."""

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        *,
        code: str = "",
        action: str = "",
    ) -> None:
        super().__init__(message, hint)
        self.code = code  # AWS's code: DBInstanceNotFound; "" when there was no answer
        self.action = action  # as IAM names it: rds:DescribeDBInstances

    @property
    def not_found(self) -> bool:
        return _NOT_FOUND.search(self.code) is not None

    @property
    def denied(self) -> bool:
        return self.code in DENIED

    @property
    def throttled(self) -> bool:
        """Whether AWS still throttled the call after every retry."""
        return self.code in THROTTLED


@contextmanager
def translated(action: str, region: str | None = None) -> Iterator[None]:
    """Turn anything that botocore raises inside into an AwsError. `action` is IAM's name."""
    import botocore.exceptions as b

    try:
        yield
    except b.ClientError as error:
        raise _refused_by_aws(error.response, action, region) from None
    except b.BotoCoreError as error:
        raise _not_asked(error, action, region) from None


@contextmanager
def answered(action: str, region: str | None = None) -> Iterator[None]:
    """Like `translated`, also for an answer that is not AWS's: empty, or a proxy's page.

    On such an answer botocore's parser raises incidental errors: KeyError, ValueError and the like.
    """
    from botocore.parsers import ResponseParserError

    try:
        with translated(action, region):
            yield
    except (ResponseParserError, LookupError, ValueError, TypeError, AttributeError) as error:
        raise not_understood(action, region) from error


def not_understood(action: str, region: str | None) -> AwsError:
    """Return the error for an answer that is not AWS's."""
    where = f" in {region}" if region else ""
    return AwsError(
        f"the answer to {action}{where} is not a valid AWS response", _REACH, action=action
    )


def _refused_by_aws(response: Mapping[str, Any], action: str, region: str | None) -> AwsError:
    answer = response.get("Error", {})
    code, text = str(answer.get("Code", "")), str(answer.get("Message", ""))
    message, hint = _worded(code, text, action, region)
    return AwsError(message, hint, code=code, action=action)


def _worded(code: str, text: str, action: str, region: str | None) -> tuple[str, str | None]:
    where = f" in {region}" if region else ""
    if code in DENIED:
        missing = _denied_action(text, action)
        return (
            f"AWS denies {missing}{where}",
            f"Allow {missing} for this identity in IAM.",
        )
    if code in THROTTLED:
        return f"AWS still throttles {action}{where} after every retry", _LATER
    if code in _EXPIRED:
        return "the AWS credentials have expired", "Sign in again, for example: aws sso login."
    if code in _UNKNOWN_KEY:
        return f"AWS does not accept these credentials{where} ({code})", _WHICH_CREDENTIALS
    if code == _NO_BUCKET or _NOT_FOUND.search(code):
        return _absent(code, text, where)
    return f"{action} failed{where}: {code}: {_sentence(text)}".rstrip(": "), None


def _absent(code: str, text: str, where: str) -> tuple[str, str]:
    if code == _NO_BUCKET:
        return "there is no such bucket", "Check the bucket's name, and the account."
    return f"{_sentence(text) or code}{where}", _ANOTHER_REGION


def _denied_action(text: str, action: str) -> str:
    named = _DENIED_ACTION.search(text)
    return named[1] if named else action


def _sentence(text: str) -> str:
    """Return AWS's message on one line, without the full stop."""
    return " ".join(text.split()).removesuffix(".")


_LATER: Final = "Wait a minute and run again; AWS_MAX_ATTEMPTS raises the number of retries."
_WHICH_CREDENTIALS: Final = "Check AWS_PROFILE or --profile, and the keys of that profile."
_ANOTHER_REGION: Final = "Check the name and the region (--region or AWS_REGION)."
_SIGN_IN: Final = (
    "Run aws configure or aws sso login, or set AWS_PROFILE or AWS_ACCESS_KEY_ID and its secret."
)


def _not_asked(error: Exception, action: str, region: str | None) -> AwsError:
    """Return the error for a call without an answer: botocore could not sign, connect or parse."""
    name = type(error).__name__
    where = f" in {region}" if region else ""
    kinds = (kind.__name__ for kind in type(error).__mro__)
    known = next((_LOCAL[kind] for kind in kinds if kind in _LOCAL), None)
    if known is None:
        return AwsError(f"{action} failed{where}: {name}: {_sentence(str(error))}", action=action)
    message, hint = known
    return AwsError(message(error).format(action=action, where=where), hint, action=action)


def _fixed(message: str) -> Callable[[Exception], str]:
    return lambda _error: message


def _profile(error: Exception) -> str:
    return f"AWS profile {_argument(error, 'profile')!r} does not exist"


def _endpoint(error: Exception) -> str:
    return f"cannot reach AWS{{where}} at {_argument(error, 'endpoint_url')}"


def _argument(error: Exception, name: str) -> str:
    return str(getattr(error, "kwargs", {}).get(name, "?")).replace("{", "").replace("}", "")


_REACH: Final = "Check the network, the region, and AWS_ENDPOINT_URL if it is set."

#: botocore's exceptions by name, so that it is imported only when AWS is used.
_LOCAL: Final[Mapping[str, tuple[Callable[[Exception], str], str]]] = {
    "NoCredentialsError": (_fixed("no AWS credentials found"), _SIGN_IN),
    "PartialCredentialsError": (_fixed("the AWS credentials are incomplete"), _SIGN_IN),
    "CredentialRetrievalError": (_fixed("cannot fetch the AWS credentials"), _SIGN_IN),
    "SSOError": (_fixed("the AWS sign-in has ended"), "Sign in again: aws sso login."),
    "TokenRetrievalError": (_fixed("the AWS sign-in has ended"), "Sign in again: aws sso login."),
    "ProfileNotFound": (_profile, "List the profiles with: aws configure list-profiles."),
    "NoRegionError": (_fixed("no AWS region is set"), "Use --region or set AWS_REGION."),
    "InvalidRegionError": (_fixed("not an AWS region"), "Use a region name such as eu-central-1."),
    "ConnectionError": (_endpoint, _REACH),
    "HTTPClientError": (_fixed("the connection to AWS{where} broke during {action}"), _REACH),
}
