"""Parameter groups in Terraform and OpenTofu configurations.

Read are the resources aws_db_parameter_group and aws_rds_cluster_parameter_group, and modules
that are given a `family` and a list of `parameters`, as terraform-aws-modules/rds is. What
refers to a variable is not known here, and said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mrtuner.errors import BadValue, MissingPart
from mrtuner.rds.documents import plain_template
from mrtuner.rds.written import Entry, WrittenGroup

_RESOURCES: Final = {"aws_db_parameter_group": False, "aws_rds_cluster_parameter_group": True}
#: Where a `parameter` block says nothing. Source: AWS provider, aws_db_parameter_group.
_METHOD: Final = "immediate"


@dataclass(frozen=True, slots=True)
class Attribute:
    """``name = value``: a literal's text, or None and the expression; lists as Python has them."""

    value: Any
    line: int

    @property
    def text(self) -> str | None:
        """The value as a text, None where it is no literal."""
        return _text(self.value)


@dataclass(frozen=True, slots=True)
class Block:
    """``kind "label" { … }``"""

    kind: str
    labels: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    blocks: tuple[Block, ...]
    line: int

    def text(self, name: str) -> str | None:
        """An attribute's text; None where it is absent or no literal."""
        found = self.attributes.get(name)
        return None if found is None else found.text


def read(text: str, source: str) -> tuple[WrittenGroup, ...]:
    """Every group in a configuration. BadValue for text that is none."""
    groups: list[WrittenGroup] = []
    for block in _parsed(text, source):
        match block:
            case Block("resource", (kind, label)) if kind in _RESOURCES:
                groups.append(_resource(block, label, source, cluster=_RESOURCES[kind]))
            case Block("module", (label,)) if {"family", "parameters"} <= block.attributes.keys():
                groups.append(_module(block, label, source, text.splitlines()))
    return tuple(groups)


def _resource(block: Block, label: str, source: str, *, cluster: bool) -> WrittenGroup:
    dynamic = [
        f"dynamic parameter blocks in line {one.line}"
        for one in block.blocks
        if one.kind == "dynamic" and one.labels == ("parameter",)
    ]
    return WrittenGroup(
        entries=tuple(_entry(one) for one in block.blocks if one.kind == "parameter"),
        source=source,
        name=block.text("name") or label,
        family=block.text("family"),
        cluster=cluster,
        line=block.line,
        unread=tuple(dynamic),
    )


def _entry(block: Block) -> Entry:
    value = block.attributes.get("value")
    return Entry(
        name=block.text("name") or "",
        value=block.text("value"),
        method=block.text("apply_method") or _METHOD,
        line=value.line if value else block.line,
        unknown="" if value and value.text is not None else _expression(value and value.value),
    )


def _module(block: Block, label: str, source: str, rows: list[str]) -> WrittenGroup:
    listed = block.attributes["parameters"]
    items = listed.value if isinstance(listed.value, list) else []
    return WrittenGroup(
        entries=tuple(_listed(item, listed.line, rows) for item in items if isinstance(item, dict)),
        source=source,
        name=block.text("parameter_group_name") or label,
        family=block.text("family"),
        line=block.line,
        unread=() if items or listed.value == [] else (f"parameters in line {listed.line}",),
    )


def _listed(item: dict[str, Any], start: int, rows: list[str]) -> Entry:
    """One object of a list; the parser knows where the list begins, not where its items do."""
    fields = {str(key).strip('"'): value for key, value in item.items()}
    name, value = _text(fields.get("name")) or "", _text(fields.get("value"))
    return Entry(
        name=name,
        value=value,
        method=_text(fields.get("apply_method")) or _METHOD,
        line=next((at for at in range(start, len(rows) + 1) if f'"{name}"' in rows[at - 1]), start),
        unknown="" if value is not None else _expression(fields.get("value")),
    )


def _text(value: Any) -> str | None:
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return plain_template(value)
    return None


def _expression(value: Any) -> str:
    text = str(value if value is not None else "without a value")
    inner = re.fullmatch(r"\$\{(.*)\}", text, re.DOTALL)
    return inner[1] if inner else text


def _parsed(text: str, source: str) -> tuple[Block, ...]:
    try:
        import hcl2
    except ImportError:
        raise MissingPart(
            "python-hcl2 is not installed", "Install it: pip install 'mrtuner[rds]'."
        ) from None
    from lark.exceptions import LarkError

    options = hcl2.SerializationOptions(
        strip_string_quotes=True, preserve_heredocs=False, with_comments=False
    )
    try:
        body = hcl2.parses(text).body
    except LarkError as error:
        where = getattr(error, "line", None)
        at = f"{source}:{where}" if isinstance(where, int) and where > 0 else source
        raise BadValue(f"cannot read {at} as Terraform", "terraform validate says more.") from None
    return tuple(_blocks(body, options))


def _blocks(body: Any, options: Any) -> Iterator[Block]:
    for rule in body.children:
        if rule is not None and rule.lark_name() == "block":
            kind, *labels = (str(label.serialize(options)) for label in rule.labels)
            yield Block(
                kind=kind,
                labels=tuple(labels),
                attributes=dict(_attributes(rule.body, options)),
                blocks=tuple(_blocks(rule.body, options)),
                line=_line(rule),
            )


def _attributes(body: Any, options: Any) -> Iterator[tuple[str, Attribute]]:
    for rule in body.children:
        if rule is not None and rule.lark_name() == "attribute":
            value = rule.expression.serialize(options)
            yield str(rule.identifier.serialize(options)), Attribute(value, _line(rule))


def _line(rule: Any) -> int:
    return int(rule.to_lark().meta.line)
