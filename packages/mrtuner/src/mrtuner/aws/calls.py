"""Make one call to any AWS service, or read all its pages; failures are AwsErrors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

from mrtuner.aws.errors import AwsError, answered, not_understood, translated
from mrtuner.aws.session import region_of

_T = TypeVar("_T")
#: Most records that RDS returns on a page.
_PAGE: Final = 100
#: Calls with another name in IAM. Source: Service Authorization Reference, Amazon S3.
_IAM_NAMES: Final = {"s3:ListObjectsV2": "s3:ListBucket"}


class Answer(dict[str, Any]):
    """AWS's answer to a call. A missing key raises AwsError."""

    def __init__(self, answer: Mapping[str, Any], action: str, region: str) -> None:
        super().__init__(answer)
        self._asked = action, region

    def __missing__(self, key: str) -> Any:
        raise not_understood(*self._asked)


def call(client: Any, method: str, **arguments: Any) -> Mapping[str, Any]:
    action, region = action_of(client, method), region_of(client)
    with answered(action, region):
        return Answer(getattr(client, method)(**arguments), action, region)


def unless_missing(read: Callable[[], _T]) -> _T | None:
    """Return what is read; None where AWS says that there is no such thing."""
    try:
        return read()
    except AwsError as error:
        if error.not_found:
            return None
        raise


def body_of(client: Any, answer: Mapping[str, Any]) -> bytes:
    """Read and return the body of an S3 object, which follows the answer."""
    with translated("s3:GetObject", region_of(client)):
        body: bytes = answer["Body"].read()
    return body


def pages(client: Any, method: str, key: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the records under `key` on every page."""
    for answer in answers(client, method, **arguments):
        yield from answer.get(key, ())


def answers(client: Any, method: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the answers to a paged call, one in memory at a time."""
    with answered(action_of(client, method), region_of(client)):
        paging = {"PageSize": _PAGE}
        yield from client.get_paginator(method).paginate(**arguments, PaginationConfig=paging)


def action_of(client: Any, method: str) -> str:
    """Return the call as IAM names it: rds:CopyDBSnapshot."""
    service = client.meta.service_model.service_name
    name = f"{service}:{client.meta.method_to_api_mapping[method]}"
    return _IAM_NAMES.get(name, name)
