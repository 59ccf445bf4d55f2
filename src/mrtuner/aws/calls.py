"""One call of any AWS service, and all pages of one; what goes wrong comes as an AwsError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mrtuner.aws.errors import answered, not_understood
from mrtuner.aws.session import region_of

#: Most records that RDS puts on a page.
_PAGE: Final = 100


class Answer(dict[str, Any]):
    """What AWS answered to a call. A key that must be there and is not is an AwsError."""

    def __init__(self, answer: Mapping[str, Any], action: str, region: str) -> None:
        super().__init__(answer)
        self._asked = action, region

    def __missing__(self, key: str) -> Any:
        raise not_understood(*self._asked)


def call(client: Any, method: str, **arguments: Any) -> Mapping[str, Any]:
    """The answer to one call; `method` as boto3 spells it."""
    action, region = action_of(client, method), region_of(client)
    with answered(action, region):
        return Answer(getattr(client, method)(**arguments), action, region)


def pages(client: Any, method: str, key: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """The records below `key` of every page."""
    for answer in answers(client, method, **arguments):
        yield from answer.get(key, ())


def answers(client: Any, method: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """The answers to a call that comes in pages, one in memory at a time."""
    with answered(action_of(client, method), region_of(client)):
        paging = {"PageSize": _PAGE}
        yield from client.get_paginator(method).paginate(**arguments, PaginationConfig=paging)


def action_of(client: Any, method: str) -> str:
    """The call as IAM names it: rds:CopyDBSnapshot."""
    service = client.meta.service_model.service_name
    return f"{service}:{client.meta.method_to_api_mapping[method]}"
