"""Parameter groups in JSON and YAML: AWS's answers, CloudFormation templates, our own documents.

JSON is parsed as YAML, its superset, so that every value has a line. Tags construct no objects:
an intrinsic such as ``!Ref`` is an unknown value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from rdstune.group.read_terraform import RESOURCES, expression
from rdstune.group.source import GroupEntry, User, WrittenGroup, together
from rdstune.group.terraform_values import Either, Unknown, Value, plain_template, texts, written

if TYPE_CHECKING:
    from yaml.events import Event
    from yaml.nodes import Node

_GROUP_TYPE: Final = re.compile(r"AWS::RDS::DB(?P<cluster>Cluster)?ParameterGroup")
_SURROGATES: Final = re.compile(r"\\u[dD][89abAB]..\\u[dD][c-fC-F]..")
_PLAIN: Final = "tag:yaml.org,2002:"


def read_json(text: str, source: str) -> tuple[WrittenGroup, ...]:
    """Return every group in a JSON document.

    Handles two things in JSON that YAML rejects: tabs, which are only valid between tokens, and
    characters escaped as a surrogate pair.
    """
    paired = _SURROGATES.sub(lambda pair: str(json.loads(f'"{pair[0]}"')), text)
    return read_yaml(paired.replace("\t", " "), source)


def read_yaml(text: str, source: str) -> tuple[WrittenGroup, ...]:
    """Return every group in a YAML document. Raises BadValue for invalid YAML."""
    root = _composed(text, source)
    for find in (_answers, _resources, _terraform_json, _ours):
        groups = tuple(find(root, source))
        if groups:
            return groups
    return ()


_READABLE: Final = "The file must hold a single JSON or YAML document."
#: Nesting limit of lists and mappings. A template's parameters are at a depth of 5.
DEEPEST: Final = 100


def _composed(text: str, source: str) -> Node:
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _require_shallow(yaml.parse(text, Loader=loader), source)
        root = yaml.compose(text, Loader=loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", error)
        raise BadValue(f"cannot read {source}{where}: {problem}", _READABLE) from None
    if root is None:
        raise BadValue(f"{source} is empty", _READABLE)
    return root


def _require_shallow(events: Iterable[Event], source: str) -> None:
    """Raise BadValue for excessive nesting, which would overflow the stack in composing.

    Reading events needs no recursion, however deep the document is.
    """
    from yaml.events import CollectionEndEvent, CollectionStartEvent

    depth = 0
    for event in events:
        if isinstance(event, CollectionStartEvent):
            depth += 1
        elif isinstance(event, CollectionEndEvent):
            depth -= 1
        if depth > DEEPEST:
            where = f":{event.start_mark.line + 1}" if event.start_mark else ""
            raise BadValue(f"{source}{where} is nested more than {DEEPEST} levels deep", _READABLE)


def _answers(root: Node, source: str) -> Iterator[WrittenGroup]:
    """Yield the groups of DescribeDBParameters: ``{"Parameters": […]}``, or the list alone."""
    rows = _items(root) or _items(_get(root, "Parameters"))
    if not rows or _get(rows[0], "ParameterName") is None:
        return
    for prefix in ("DBParameterGroup", "DBClusterParameterGroup"):
        name = _text(_get(root, f"{prefix}Name"))
        if name:
            break
    yield WrittenGroup(
        # AWS lists the family's other parameters too.
        entries=tuple(
            _answered(row) for row in rows if _text(_get(row, "Source")) in {None, "user"}
        ),
        source=source,
        name=name,
        family=_text(_get(root, "DBParameterGroupFamily")),
        cluster=_get(root, "DBClusterParameterGroupName") is not None,
        unread=tuple(
            f"what follows the first page: the answer has a {name}"
            for name in ("Marker", "NextToken") if _text(_get(root, name))
        ),
    )  # fmt: skip


def _answered(row: Node) -> GroupEntry:
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
    """Yield the groups of a CloudFormation template."""
    resources = list(_looped(_pairs(_get(root, "Resources"))))
    users = _users([(name, resource) for name, resource, _ in resources])
    for name, resource, marks in resources:
        kind = _GROUP_TYPE.fullmatch(_text(_get(resource, "Type")) or "")
        properties = _get(resource, "Properties")
        if kind is None or properties is None:
            continue
        option = f"DB{kind['cluster'] or ''}ParameterGroupName"
        named = _text(_get(properties, option))
        given, family = _get(properties, "Parameters"), _get(properties, "Family")
        yield WrittenGroup(
            entries=tuple(
                _entry(key, value, read=partial(_literal, marks=marks))
                for key, value in _pairs(given)
                if not _is_computed(given)
            ),
            unread=tuple(
                f"{what} on line {_line(node)}"
                for what, node in (("Properties", properties), ("Parameters", given))
                if _is_computed(node)
            ),
            source=source,
            name=named or _text(name),
            family=_literal(family, marks),
            unknown_family=""
            if family is None or _literal(family, marks)
            else f"Family: {_shown(family)}",
            cluster=kind["cluster"] is not None,
            line=_line(name),
            users=tuple(
                user
                for each in dict.fromkeys((_text(name) or "", named or ""))
                for user in users.get((option, each), ())
            ),
        )


def _looped(
    resources: Iterable[tuple[Node, Node]], marks: tuple[str, ...] = ()
) -> Iterator[tuple[Node, Node, tuple[str, ...]]]:
    """Yield resources, and what a loop repeats: ``Fn::ForEach::Name: [Variable, [Values], {…}]``.

    What stands for a variable in the texts, ``${Variable}``, comes with them. Source:
    CloudFormation, Fn::ForEach.
    """
    for name, resource in resources:
        if (_text(name) or "").startswith("Fn::ForEach::"):
            match _items(resource):
                case [variable, _, body, *_]:
                    yield from _looped(_pairs(body), (*marks, f"${{{_text(variable)}}}"))
        else:
            yield name, resource, marks


def _is_computed(node: Node | None) -> bool:
    """Whether a mapping is known only when the template is deployed: !If, !Ref, Fn::Transform."""
    from yaml import MappingNode

    if node is None:
        return False
    names = [_text(name) or "" for name, _ in _pairs(node)]
    plain = isinstance(node, MappingNode) and node.tag.startswith(_PLAIN)
    return not plain or any(name == "Ref" or name.startswith("Fn::") for name in names)


def _users(resources: Iterable[tuple[Node, Node]]) -> dict[tuple[str, str], list[User]]:
    """Return the instances and clusters that use each group, by the option and the group's name."""
    found: dict[tuple[str, str], list[User]] = {}
    given = [(name, _get(one, "Properties"), _text(_get(one, "Type"))) for name, one in resources]
    members: dict[str | None, list[tuple[str, ...]]] = {}
    for _, properties, kind in given:
        if kind == "AWS::RDS::DBInstance":
            cluster = _named(_get(properties, "DBClusterIdentifier"))
            members.setdefault(cluster, []).append(_classes(properties))
    for name, properties, kind in given:
        option = _GIVEN.get(kind or "")
        group = _named(_get(properties, option)) if option else None
        if option is None or group is None:
            continue
        classes = _classes(properties)
        if not classes and kind == "AWS::RDS::DBCluster":
            classes = together(members.get(_text(name), []))
        user = User(
            name=_text(name) or "",
            class_names=classes,
            engine=_literal(_get(properties, "Engine")),
            version=_literal(_get(properties, "EngineVersion")),
            line=_line(name),
        )
        found.setdefault((option, group), []).append(user)
    return found


_GIVEN: Final = {
    "AWS::RDS::DBInstance": "DBParameterGroupName",
    "AWS::RDS::DBCluster": "DBClusterParameterGroupName",
}


def _named(node: Node | None) -> str | None:
    """Return a name, or the logical name that `Ref` refers to."""
    reference = _get(node, "Ref")
    if reference is None and node is not None and node.tag == "!Ref":
        return str(node.value)
    return _text(reference if reference is not None else node)


def _classes(properties: Node | None) -> tuple[str, ...]:
    node = _get(properties, "DBInstanceClass") or _get(properties, "DBClusterInstanceClass")
    text = _literal(node)
    return (text,) if text else _branches(node)


def _branches(node: Node | None) -> tuple[str, ...]:
    """Return the values of `Fn::If`, where both branches are literals."""
    whole = _get(node, "Fn::If")
    if whole is None and node is not None and node.tag == "!If":
        whole = node
    texts = [_literal(each) for each in _items(whole)[1:]]
    if None in texts:
        return ()
    return tuple(dict.fromkeys(text for text in texts if text is not None))


def _terraform_json(root: Node, source: str) -> Iterator[WrittenGroup]:
    """Yield the groups of Terraform's JSON syntax: one block, or a list of them."""
    texts_of = {_text(name): _text(value) for name, value in _pairs(_get(root, "locals"))}
    local = {name: plain_template(text) for name, text in texts_of.items() if text is not None}

    def set_by_terraform(row: Node) -> GroupEntry:
        method = _text(_get(row, "apply_method")) or "immediate"  # the provider's default
        value = _get(row, "value")
        given = _template(_text(value), local)
        if isinstance(given, Either):
            return replace(_entry(_get(row, "name"), value, method=method), value=None,
                           unknown=_text(value) or "", either=texts(given))  # fmt: skip
        return _entry(_get(row, "name"), value, method=method, read=lambda _: written(given))

    declared = [
        (label, body, cluster)
        for resources in _each(_get(root, "resource")) for kind, cluster in RESOURCES.items()
        for labels in _each(_get(resources, kind)) for label, bodies in _pairs(labels)
        for body in _each(bodies)
    ]  # fmt: skip
    for label, body, cluster in declared:
        blocks = _get(body, "parameter")
        rows = _each(blocks)
        dynamic = _get(_get(body, "dynamic"), "parameter")
        family = _template(_text(_get(body, "family")), local)
        yield WrittenGroup(
            entries=tuple(set_by_terraform(row) for row in rows),
            source=source,
            name=_text(_get(body, "name")) or _text(label),
            family=written(family),
            unknown_family=""
            if family is None or written(family) is not None
            else _text(_get(body, "family")) or "",
            cluster=cluster,
            line=_line(label),
            unread=()
            if dynamic is None
            else (f"dynamic parameter blocks on line {_line(dynamic)}",),
            terraform=True,
        )


def _ours(root: Node, source: str) -> Iterator[WrittenGroup]:
    """Yield the groups of `rdstune show --json` and `rdstune render --json`."""
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
) -> GroupEntry:
    text = (read or _text)(value)
    return GroupEntry(
        name=_text(name) or "",
        value=text,
        unknown="" if text is not None else _shown(value),
        either=() if text is not None else _branches(value),
        line=_line(value if value is not None else name),
        **fields,
    )


def _template(text: str | None, local: Mapping[str | None, str | None]) -> Value:
    """Return the value of a string in Terraform's JSON: a template, as in its native syntax."""
    if text is None:
        return None
    plain = plain_template(text)
    whole = re.fullmatch(r"\$\{(.*)\}", text, re.DOTALL)
    if plain is not None or whole is None:
        return Unknown(text) if plain is None else plain
    known = {str(name): value for name, value in local.items() if value is not None}
    return expression(whole[1], known)


def _each(node: Node | None) -> list[Node]:
    """Return the blocks of Terraform's JSON syntax: several are a list, one may be."""
    return _items(node) or ([node] if node is not None else [])


def _get(node: Node | None, key: str) -> Node | None:
    return next((value for name, value in _pairs(node) if _text(name) == key), None)


def _pairs(node: Node | None) -> list[tuple[Node, Node]]:
    from yaml import MappingNode

    return list(node.value) if isinstance(node, MappingNode) else []


def _items(node: Node | None) -> list[Node]:
    from yaml import SequenceNode

    return list(node.value) if isinstance(node, SequenceNode) else []


def _text(node: Node | None) -> str | None:
    """Return a scalar as it is written; None for an intrinsic, a mapping and null."""
    from yaml import ScalarNode

    if not isinstance(node, ScalarNode) or node.tag == f"{_PLAIN}null":
        return None
    text = str(node.value)
    if node.tag == "!Sub" and "${" not in text:
        return text
    return text if node.tag.startswith(_PLAIN) else None


def _literal(node: Node | None, marks: Iterable[str] = ("${",)) -> str | None:
    """Return a scalar of a template; None also where one of the `marks` of variables is in it.

    By default those of any, which a formula of RDS has itself: ``${DBInstanceVCPU*2}``.
    """
    text = _text(node)
    return None if text is None or any(mark in text for mark in marks) else text


def _shown(node: Node | None) -> str:
    """Return the source text of a value that is only known when the template runs."""
    if node is None or node.tag == f"{_PLAIN}null":
        return "no value"
    if (text := _text(node)) is not None:
        return text
    pairs = _pairs(node)
    if pairs:
        return f"{_text(pairs[0][0])}: …"
    return f"{node.tag.removeprefix(_PLAIN)} {node.value if isinstance(node.value, str) else '…'}"


def _line(node: Node | None) -> int | None:
    return None if node is None else int(node.start_mark.line) + 1
