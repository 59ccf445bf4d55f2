"""Parameter groups in JSON and YAML: AWS's answers, CloudFormation templates, our own documents.

JSON is read as the YAML that it is, so that every value has a line. Nothing is constructed from
the tags: an intrinsic such as ``!Ref`` is a value that is not known here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner.rds.written import Entry, WrittenGroup

if TYPE_CHECKING:
    from yaml.nodes import Node

_GROUP_TYPE: Final = re.compile(r"AWS::RDS::DB(?P<cluster>Cluster)?ParameterGroup")
_TERRAFORM: Final = {"aws_db_parameter_group": False, "aws_rds_cluster_parameter_group": True}
_SURROGATES: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..")
_PLAIN: Final = "tag:yaml.org,2002:"


def read_json(text: str, source: str) -> tuple[WrittenGroup, ...]:
    """Every group in a JSON document.

    Two things of JSON that YAML minds: tabs, which can only stand between the parts, and
    characters escaped as a pair of surrogates.
    """
    paired = _SURROGATES.sub(lambda pair: str(json.loads(f'"{pair[0]}"')), text)
    return read_yaml(paired.replace("\t", " "), source)


def read_yaml(text: str, source: str) -> tuple[WrittenGroup, ...]:
    """Every group in a YAML document. BadValue for text that is none."""
    root = _composed(text, source)
    for find in (_answers, _resources, _terraform_json, _ours):
        groups = tuple(find(root, source))
        if groups:
            return groups
    return ()


_READABLE: Final = "Give one document of JSON or YAML."


def _composed(text: str, source: str) -> Node:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", error)
        raise BadValue(f"cannot read {source}{where}: {problem}", _READABLE) from None
    if root is None:
        raise BadValue(f"{source} is empty", _READABLE)
    return root


def _answers(root: Node, source: str) -> Iterator[WrittenGroup]:
    """Of DescribeDBParameters: ``{"Parameters": […]}``, or the list alone."""
    rows = _items(root) or _items(_get(root, "Parameters"))
    if not rows or _get(rows[0], "ParameterName") is None:
        return
    for prefix in ("DBParameterGroup", "DBClusterParameterGroup"):
        name = _text(_get(root, f"{prefix}Name"))
        if name:
            break
    yield WrittenGroup(
        entries=tuple(_answered(row) for row in rows if _by_somebody(row)),
        source=source,
        name=name,
        family=_text(_get(root, "DBParameterGroupFamily")),
        cluster=_get(root, "DBClusterParameterGroupName") is not None,
    )


def _by_somebody(row: Node) -> bool:
    """Set in this group: AWS lists every parameter of the family beside them."""
    return _text(_get(row, "Source")) in {None, "user"}


def _answered(row: Node) -> Entry:
    modifiable = _text(_get(row, "IsModifiable"))
    return _entry(
        _get(row, "ParameterName"),
        _get(row, "ParameterValue"),
        method=_text(_get(row, "ApplyMethod")),
        apply_type=_text(_get(row, "ApplyType")),
        allowed=_text(_get(row, "AllowedValues")),
        modifiable=None if modifiable is None else modifiable.lower() == "true",
    )


def _resources(root: Node, source: str) -> Iterator[WrittenGroup]:
    """Of a CloudFormation template."""
    for name, resource in _pairs(_get(root, "Resources")):
        kind = _GROUP_TYPE.fullmatch(_text(_get(resource, "Type")) or "")
        properties = _get(resource, "Properties")
        if kind is None or properties is None:
            continue
        named = _get(properties, f"DB{kind['cluster'] or ''}ParameterGroupName")
        yield WrittenGroup(
            entries=tuple(
                _entry(key, value) for key, value in _pairs(_get(properties, "Parameters"))
            ),
            source=source,
            name=_text(named) or _text(name),
            family=_text(_get(properties, "Family")),
            cluster=kind["cluster"] is not None,
            line=_line(name),
        )


def _terraform_json(root: Node, source: str) -> Iterator[WrittenGroup]:
    """Of Terraform's JSON syntax: one block, or a list of them."""
    for kind, cluster in _TERRAFORM.items():
        for label, body in _pairs(_get(_get(root, "resource"), kind)):
            blocks = _get(body, "parameter")
            rows = _items(blocks) or ([blocks] if blocks is not None else [])
            yield WrittenGroup(
                entries=tuple(_set_by_terraform(row) for row in rows),
                source=source,
                name=_text(_get(body, "name")) or _text(label),
                family=_text(_get(body, "family")),
                cluster=cluster,
                line=_line(label),
            )


def _set_by_terraform(row: Node) -> Entry:
    method = _text(_get(row, "apply_method")) or "immediate"  # the provider's default
    return _entry(_get(row, "name"), _get(row, "value"), method=method, read=_template)


def _ours(root: Node, source: str) -> Iterator[WrittenGroup]:
    """Of `rdstune show --json` and `rdstune render --json`."""
    rows = _items(_get(root, "parameters"))
    if rows and all(_get(row, "name") is not None for row in rows):
        family = _text(_get(root, "family"))
        cluster = _text(_get(root, "cluster"))
        yield WrittenGroup(
            entries=tuple(
                _entry(_get(row, "name"), _get(row, "value"), method=_text(_get(row, "method")))
                for row in rows
            ),
            source=source,
            name=_text(_get(root, "name")),
            family=family,
            cluster=cluster == "true" if cluster else (family or "").startswith("aurora"),
        )


def _entry(
    name: Node | None,
    value: Node | None,
    *,
    read: Callable[[Node | None], str | None] | None = None,
    **fields: Any,
) -> Entry:
    text = (read or _text)(value)
    return Entry(
        name=_text(name) or "",
        value=text,
        unknown="" if text is not None else _shown(value),
        line=_line(value if value is not None else name),
        **fields,
    )


def _template(node: Node | None) -> str | None:
    """A string of Terraform's JSON: a template, as in its own syntax."""
    text = _text(node)
    return None if text is None else plain_template(text)


def plain_template(text: str) -> str | None:
    """What a Terraform template gives, or None where it refers to something.

    >>> plain_template("$${DBInstanceVCPU*2}"), plain_template("${var.memory}")
    ('${DBInstanceVCPU*2}', None)
    """
    if re.search(r"(?<!\$)\$\{|(?<!%)%\{", text):
        return None
    return text.replace("$${", "${").replace("%%{", "%{")


def _get(node: Node | None, key: str) -> Node | None:
    return next((value for name, value in _pairs(node) if _text(name) == key), None)


def _pairs(node: Node | None) -> list[tuple[Node, Node]]:
    from yaml import MappingNode

    return list(node.value) if isinstance(node, MappingNode) else []


def _items(node: Node | None) -> list[Node]:
    from yaml import SequenceNode

    return list(node.value) if isinstance(node, SequenceNode) else []


def _text(node: Node | None) -> str | None:
    """A scalar as it is written; None for an intrinsic, a mapping and null."""
    from yaml import ScalarNode

    if not isinstance(node, ScalarNode) or node.tag == f"{_PLAIN}null":
        return None
    text = str(node.value)
    if node.tag == "!Sub" and "${" not in text:
        return text
    return text if node.tag.startswith(_PLAIN) else None


def _shown(node: Node | None) -> str:
    """A value that is only known when the template runs, as it stands there."""
    if node is None or node.tag == f"{_PLAIN}null":
        return "without a value"
    pairs = _pairs(node)
    if pairs:
        return f"{_text(pairs[0][0])}: …"
    return f"{node.tag.removeprefix(_PLAIN)} {node.value if isinstance(node.value, str) else '…'}"


def _line(node: Node | None) -> int | None:
    return None if node is None else int(node.start_mark.line) + 1
