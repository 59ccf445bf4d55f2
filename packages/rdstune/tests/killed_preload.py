"""Loaded once into the fork server: a session that has already read botocore's RDS model."""

from __future__ import annotations

from typing import Any

import botocore.session

import rdstune.live.undo  # noqa: F401 - children need it

_session = botocore.session.Session()
_session.get_service_model("rds")
for _part in ("endpoints", "partitions", "sdk-default-configuration"):
    _session.get_component("data_loader").load_data(_part)


def client(endpoint: str) -> Any:
    """A client of the lab."""
    return _session.create_client(
        "rds",
        region_name="us-east-1",
        endpoint_url=endpoint,
        aws_access_key_id="lab",
        aws_secret_access_key="lab",
    )
