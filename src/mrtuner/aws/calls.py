"""One call of any AWS service, and all pages of one; what goes wrong comes as an AwsError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from mrtuner.aws.errors import translated
from mrtuner.aws.session import region_of

#: Most records that RDS puts on a page.
_PAGE: Final = 100


def call(client: Any, method: str, **arguments: Any) -> Mapping[str, Any]:
    """The answer to one call; `method` as boto3 spells it."""
    with translated(action_of(client, method), region_of(client)):
        answer: Mapping[str, Any] = getattr(client, method)(**arguments)
        return answer


def pages(client: Any, method: str, key: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """The records below `key` of every page."""
    for answer in answers(client, method, **arguments):
        yield from answer.get(key, ())


def answers(client: Any, method: str, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """The answers to a call that comes in pages, one in memory at a time."""
    with translated(action_of(client, method), region_of(client)):
        paging = {"PageSize": _PAGE}
        yield from client.get_paginator(method).paginate(**arguments, PaginationConfig=paging)


def action_of(client: Any, method: str) -> str:
    """The call as IAM names it: rds:CopyDBSnapshot."""
    service = client.meta.service_model.service_name
    return f"{service}:{client.meta.method_to_api_mapping[method]}"
