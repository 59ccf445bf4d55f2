"""Troubles of the lab that can be switched on, the record of calls, and the rest of AWS."""

from __future__ import annotations

import urllib.request
from urllib.error import HTTPError

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, HTTPClientError
from botocore.parsers import ResponseParserError

from lab_calls import client, new_group, new_instance, refusal
from mrtuner.errors import UsageError
from rdstune.lab import Lab
from rdstune.lab.simulated_faults import Failure


def test_calls_are_recorded_in_order_under_iams_names(lab: Lab) -> None:
    client().describe_db_instances()
    client(service="sts").get_caller_identity()
    client(service="kms").list_keys()
    client(service="cloudwatch").list_metrics()
    client(service="lambda").list_functions()
    assert lab.calls == (
        ("rds", "DescribeDBInstances"),
        ("sts", "GetCallerIdentity"),
        ("kms", "ListKeys"),
        ("cloudwatch", "ListMetrics"),
        ("lambda", "ListFunctions"),
    )
    lab.forget_calls()
    assert not lab.calls


def test_other_services_are_motos_and_are_emptied_too(lab: Lab) -> None:
    s3 = client(service="s3")
    s3.create_bucket(Bucket="backups")
    assert [row["Name"] for row in s3.list_buckets()["Buckets"]] == ["backups"]
    lab.reset()
    assert s3.list_buckets()["Buckets"] == []


def test_a_denied_action_names_itself(lab: Lab) -> None:
    lab.deny("rds:ModifyDBParameterGroup", "kms:ListKeys")
    rds = client()
    new_group(rds)
    code, message, http = refusal(
        rds.modify_db_parameter_group,
        DBParameterGroupName="pg",
        Parameters=[{"ParameterName": "work_mem", "ParameterValue": "64"}],
    )
    assert (code, http) == ("AccessDenied", 403)
    assert "rds:ModifyDBParameterGroup" in message
    assert refusal(client(service="kms").list_keys)[0] == "AccessDeniedException"
    lab.allow("rds:ModifyDBParameterGroup")
    rds.describe_db_parameter_groups()
    assert ("rds", "ModifyDBParameterGroup") in lab.calls


def test_calls_above_the_rate_are_throttled_region_by_region(lab: Lab) -> None:
    lab.throttle(1)
    here, there = client("us-east-1"), client("eu-west-1")
    here.describe_db_instances()
    assert refusal(here.describe_db_instances)[0] == "Throttling"
    there.describe_db_instances()
    assert lab.throttled == 1
    lab.throttle(None)
    here.describe_db_instances()


def test_botocores_own_retries_get_through_a_rate(lab: Lab) -> None:
    lab.throttle(2)
    rds = client(attempts=10)
    for _ in range(6):
        rds.describe_db_instances()
    assert lab.throttled > 0


@pytest.mark.parametrize(
    ("how", "code"), [("closed", "InvalidClientTokenId"), ("unavailable", "ServiceUnavailable")]
)
def test_a_failing_region_fails_alone(lab: Lab, how: str, code: str) -> None:
    lab.fail_region("eu-west-1", how)  # type: ignore[arg-type]  # both are allowed values
    assert refusal(client("eu-west-1").describe_db_instances)[0] == code
    client("us-east-1").describe_db_instances()
    lab.heal_region("eu-west-1")
    client("eu-west-1").describe_db_instances()


def test_an_unreachable_region_closes_the_connection(lab: Lab) -> None:
    lab.fail_region("eu-west-1", "unreachable")
    with pytest.raises((HTTPClientError, EndpointConnectionError)):
        client("eu-west-1").describe_db_instances()


@pytest.mark.parametrize(("how", "status"), [("empty", 403), ("page", 200)])
def test_something_in_between_answers_for_a_region(lab: Lab, how: Failure, status: int) -> None:
    lab.fail_region("eu-west-1", how)
    with pytest.raises((ResponseParserError, KeyError)):
        client("eu-west-1").describe_db_instances()
    client("us-east-1").describe_db_instances()


def test_a_request_without_a_signature_is_refused(lab: Lab) -> None:
    body = b"Action=DescribeDBInstances&Version=2014-10-31"
    with pytest.raises(HTTPError) as caught:
        urllib.request.urlopen(urllib.request.Request(lab.endpoint_url, body))
    assert caught.value.code == 403
    assert b"MissingAuthenticationToken" in caught.value.read()
    caught.value.close()


def test_an_operation_that_the_lab_lacks_says_so(lab: Lab) -> None:
    with pytest.raises(ClientError, match="the lab does not support DescribeDBRecommendations"):
        client().describe_db_recommendations()


def test_tags_are_kept_for_what_they_were_given_to(lab: Lab) -> None:
    rds = client()
    new_instance(lab, rds, Tags=[{"Key": "environment", "Value": "production"}])
    arn = "arn:aws:rds:us-east-1:123456789012:db:one"
    rds.add_tags_to_resource(ResourceName=arn, Tags=[{"Key": "team", "Value": "shop"}])
    rds.remove_tags_from_resource(ResourceName=arn, TagKeys=["environment"])
    assert rds.list_tags_for_resource(ResourceName=arn)["TagList"] == [
        {"Key": "team", "Value": "shop"}
    ]
    code, _, _ = refusal(rds.list_tags_for_resource, ResourceName=arn.replace(":one", ":two"))
    assert code == "DBInstanceNotFound"


def test_what_can_be_ordered_is_listed(lab: Lab) -> None:
    rds = client()
    pages = rds.get_paginator("describe_orderable_db_instance_options").paginate(
        Engine="postgres", EngineVersion="17.6", PaginationConfig={"PageSize": 1000}
    )
    classes = {
        row["DBInstanceClass"] for page in pages for row in page["OrderableDBInstanceOptions"]
    }
    assert {"db.t4g.micro", "db.r5.2xlarge"} <= classes
    versions = rds.describe_db_engine_versions(Engine="postgres", EngineVersion="18")
    assert {row["DBParameterGroupFamily"] for row in versions["DBEngineVersions"]} == {"postgres18"}


def test_a_port_that_is_taken_is_a_plain_error(lab: Lab) -> None:
    port = int(lab.endpoint_url.rpartition(":")[2])
    with pytest.raises(UsageError, match="cannot listen on port"):
        Lab(port=port).start()


def test_an_empty_lab_needs_no_real_credentials(lab: Lab) -> None:
    assert lab.environment["AWS_CONFIG_FILE"] == "/dev/null"
    assert lab.environment["AWS_ENDPOINT_URL"] == lab.endpoint_url
