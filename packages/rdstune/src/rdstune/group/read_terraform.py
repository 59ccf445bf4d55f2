"""Parameter groups in Terraform and OpenTofu configurations.

Reads the resources aws_db_parameter_group and aws_rds_cluster_parameter_group, modules with a
`family` and a list of `parameters` such as terraform-aws-modules/rds, and the instances and
clusters that use the group. Variables have the values of the directory's .tfvars files, or else
their defaults; what is given only when Terraform runs is unknown, and reported as such.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from mrtuner.errors import BadValue
from mrtuner.wording import enumerated
from rdstune.group.source import GroupEntry, User, WrittenGroup, together
from rdstune.group.terraform_expressions import Definition, Scope, evaluate
from rdstune.group.terraform_files import is_values
from rdstune.group.terraform_values import Either, Unknown, Value, texts, written

if TYPE_CHECKING:
    from rdstune.group.terraform_expressions import Node

RESOURCES: Final = {"aws_db_parameter_group": False, "aws_rds_cluster_parameter_group": True}
#: A module with these attributes creates a parameter group.
_OF_A_MODULE: Final = frozenset({"family", "parameters"})
#: Default of a `parameter` block. Source: AWS provider, aws_db_parameter_group.
_METHOD: Final = "immediate"


@dataclass(frozen=True, slots=True)
class Attribute:
    """``name = value``"""

    value: Value
    line: int

    @property
    def text(self) -> str | None:
        """The value as text, None where it is not a known scalar."""
        return written(self.value)


@dataclass(frozen=True, slots=True)
class HclBlock:
    """``kind "label" { … }``"""

    kind: str
    labels: tuple[str, ...]
    body: Node
    attributes: Mapping[str, tuple[Node, int]]  # not evaluated, with their lines
    line: int
    scope: Scope

    def get(self, name: str) -> Attribute | None:
        """Return an attribute, evaluated; None where it is absent."""
        found = self.attributes.get(name)
        return Attribute(evaluate(found[0], self.scope), found[1]) if found else None

    def value(self, name: str) -> Value:
        """Return an attribute's value; None where it is absent."""
        found = self.get(name)
        return found.value if found else None

    @property
    def blocks(self) -> tuple[HclBlock, ...]:
        return tuple(_blocks(self.body, self.scope))

    def text(self, name: str) -> str | None:
        """Return an attribute's text; None where it is absent or not known."""
        return written(self.value(name))


#: Returns the texts of a module's files by name, for the source that a call gives.
Modules = Callable[[str], Mapping[str, str | None]]


def read(
    text: str,
    source: str,
    beside: Mapping[str, str | None] = MappingProxyType({}),
    modules: Modules = lambda _source: {},
) -> tuple[WrittenGroup, ...]:
    """Return every group in a configuration. Raises BadValue for text that is not Terraform.

    `beside`: the texts of the other files of its module, by name (`files_beside`), None for those
    that cannot be read. `modules`: those of the modules that it calls (`files_of_module`).
    """
    try:
        return tuple(replace(each, terraform=True) for each in _read(text, source, beside, modules))
    except RecursionError:
        raise BadValue(f"{source} is nested too deeply", "Move nested parts into locals.") from None


def _read(
    text: str, source: str, beside: Mapping[str, str | None], modules: Modules
) -> Iterator[WrittenGroup]:
    blocks = _parsed(text, source, beside)
    users = _Users(blocks)
    for block in blocks:
        match block:
            case HclBlock("resource", (kind, label)) if kind in RESOURCES:
                yield users.given(_resource(block, label, source, cluster=RESOURCES[kind]), label)
            case HclBlock("module", (label,)):
                inner = list(_called(block, label, source, text.splitlines(), modules))
                yield from inner
                if not inner and block.attributes.keys() >= _OF_A_MODULE:
                    yield _module(block, label, source, text.splitlines())


def _called(
    block: HclBlock, label: str, source: str, rows: list[str], modules: Modules
) -> Iterator[WrittenGroup]:
    """Yield the groups of a local module with the values that a call gives to its variables."""
    files = trees(modules(block.text("source") or ""))
    defined = definitions(files)
    variables: dict[str, Value] = {
        name: evaluate(each.node, Scope(text=each.text, defined=defined))
        for name, each in defined["var"].items()
    }
    variables |= {name: block.value(name) for name in block.attributes}
    unread = [name for name, file in files.items() if file is None and not is_values(name)]
    if unread:  # it may hold a group, or what another file's values are
        yield WrittenGroup(
            entries=(), source=source, name=label, line=block.line,
            unread=tuple(f"{name}, which cannot be read, of module.{label}" for name in unread),
        )  # fmt: skip
    for body, text in filter(None, files.values()):
        scope = Scope(text=text, defined=defined, names={"var": variables})
        for inner in _blocks(body, scope):
            match inner:
                case HclBlock("resource", (kind, name)) if kind in RESOURCES:
                    group = _resource(inner, name, source, cluster=RESOURCES[kind])
                    yield replace(
                        group,
                        line=block.line,
                        users=(_user(block, f"module.{label}"),),
                        entries=tuple(
                            replace(each, line=_line(each.name, block.line, rows))
                            for each in group.entries
                        ),
                    )


def _resource(block: HclBlock, label: str, source: str, *, cluster: bool) -> WrittenGroup:
    parameters: list[HclBlock] = []
    unread: list[str] = []
    for one in block.blocks:
        if one.kind == "parameter":
            parameters.append(one)
        elif one.kind == "dynamic" and one.labels == ("parameter",):
            found = _dynamic(one)
            parameters += found or ()
            if found is None:
                unread.append(f"dynamic parameter blocks on line {one.line}")
    unread += [what for one in parameters for what in _unread(one, "name", "apply_method")]
    return WrittenGroup(
        entries=tuple(_entry(one) for one in parameters if not _is_hidden(one.value("name"))),
        source=source,
        name=block.text("name") or label,
        family=block.text("family"),
        unknown_family=", ".join(_unread(block, "family")),
        cluster=cluster,
        line=block.line,
        unread=tuple(dict.fromkeys(unread)),
    )


def _unread(block: HclBlock, *names: str) -> Iterator[str]:
    """Yield the attributes that are there and whose value is not known."""
    for name in names:
        found = block.get(name)
        if found is not None and _is_hidden(found.value):
            yield f"{name} = {_expression(found.value)} on line {found.line}"


def _is_hidden(value: Value) -> bool:
    """Whether a value is known only when Terraform runs."""
    return isinstance(value, Unknown | Either)


def _dynamic(block: HclBlock) -> list[HclBlock] | None:
    """Return the blocks that a `dynamic "parameter"` makes; None where its list is not known."""
    items = _items(block.value("for_each"))
    content = next((one for one in block.blocks if one.kind == "content"), None)
    if items is None or content is None:
        return None
    named = block.value("iterator")  # a name, without quotes
    iterator = named.text if isinstance(named, Unknown) else block.labels[0]
    names = dict(content.scope.names)
    return [
        replace(content, scope=replace(content.scope, names=names | {iterator: each}))
        for each in ({"key": key, "value": value} for key, value in items)
    ]


def _items(value: Value) -> list[tuple[Value, Value]] | None:
    match value:
        case list():
            return [(Fraction(at), each) for at, each in enumerate(value)]
        case dict():
            return list(value.items())
    return None


def _entry(block: HclBlock) -> GroupEntry:
    value, method = block.get("value"), block.value("apply_method")
    return GroupEntry(
        name=block.text("name") or "",
        value=value.text if value else None,
        method=_METHOD if method is None else written(method),
        line=value.line if value else block.line,
        unknown="" if value and value.text is not None else _expression(value and value.value),
        either=_alternatives(value and value.value),
    )


def _module(block: HclBlock, label: str, source: str, rows: list[str]) -> WrittenGroup:
    found, line = block.value("parameters"), block.attributes["parameters"][1]
    items = found if isinstance(found, list) else []
    listed = [item for item in items if isinstance(item, dict)]
    hidden = [
        f"{key} = {_expression(item[key])} in parameters on line {line}"
        for item in listed for key in ("name", "apply_method") if _is_hidden(item.get(key))
    ]  # fmt: skip
    return WrittenGroup(
        entries=tuple(
            _listed(item, line, rows) for item in listed if not _is_hidden(item.get("name"))
        ),
        source=source,
        name=block.text("parameter_group_name") or label,
        family=block.text("family"),
        unknown_family=", ".join(_unread(block, "family")),
        line=block.line,
        unread=(
            *hidden,
            *(
                f"an element of parameters on line {line}: {_expression(item)}"
                for item in items
                if not isinstance(item, dict)
            ),
        )
        if items or found == []
        else (f"parameters on line {line}",),
        users=(_user(block, f"module.{label}"),),
    )


def _listed(item: dict[str, Any], start: int, rows: list[str]) -> GroupEntry:
    """Return one object of a list; its line is found by searching for its name from the list on."""
    name, value = written(item.get("name")) or "", written(item.get("value"))
    method = item.get("apply_method")
    return GroupEntry(
        name=name,
        value=value,
        method=_METHOD if method is None else written(method),
        line=_line(name, start, rows),
        unknown="" if value is not None else _expression(item.get("value")),
        either=_alternatives(item.get("value")),
    )


def _line(name: str, start: int, rows: list[str]) -> int:
    """Return the line on which a parameter's name is given, searched from a line on."""
    lines = [*range(start, len(rows) + 1), *range(1, start)]
    return next((at for at in lines if f'"{name}"' in rows[at - 1]), start)


def _alternatives(value: Value) -> tuple[str, ...]:
    return texts(value) if isinstance(value, Either) else ()


def _expression(value: Value) -> str:
    match value:
        case None:
            return "no value"
        case Unknown(text):
            return text
        case Either(options):
            return enumerated((written(option) for option in options), "or")
    return "not a string"


# Users of a group.


#: The attribute in which each kind of resource names its group, and the kind of that group.
_GIVEN: Final = {
    "aws_db_instance": ("parameter_group_name", "aws_db_parameter_group"),
    "aws_rds_cluster_instance": ("db_parameter_group_name", "aws_db_parameter_group"),
    "aws_rds_cluster": ("db_cluster_parameter_group_name", "aws_rds_cluster_parameter_group"),
}


class _Users:
    """A configuration's instances and clusters, by the group that they use."""

    def __init__(self, blocks: Sequence[HclBlock]) -> None:
        self._found: dict[tuple[str, str], list[User]] = {}
        members = _members(blocks)
        for block in blocks:
            match block:
                case HclBlock("resource", (kind, label)) if kind in _GIVEN:
                    option, of = _GIVEN[kind]
                    user = _user(block, label)
                    if kind == "aws_rds_cluster" and not user.class_names:
                        user = replace(user, class_names=members.get(label, ()))
                    for name in _group_named(block.value(option), of):
                        self._found.setdefault((of, name), []).append(user)

    def given(self, group: WrittenGroup, label: str) -> WrittenGroup:
        """Return the group with its users, found by its name or by a reference to it."""
        kind = next(kind for kind, cluster in RESOURCES.items() if cluster == group.cluster)
        names = (f"{kind}.{label}", f'"{group.name}"')
        return replace(
            group, users=tuple(user for name in names for user in self._found.get((kind, name), ()))
        )


def _group_named(value: Value, kind: str) -> Iterator[str]:
    """Yield the names that refer to a group: ``aws_db_parameter_group.app``, or a quoted name."""
    if isinstance(value, Unknown):
        reference = re.search(rf"\b{kind}\.[\w-]+", value.text)
        if reference:
            yield reference[0]
    elif isinstance(value, str):
        yield f'"{value}"'


def _members(blocks: Sequence[HclBlock]) -> dict[str, tuple[str, ...]]:
    """Return the classes of each cluster's instances; none if any of them is unknown."""
    found: dict[str, list[tuple[str, ...]]] = {}
    for block in blocks:
        if block.kind == "resource" and block.labels[:1] == ("aws_rds_cluster_instance",):
            named = block.value("cluster_identifier")
            text = named.text if isinstance(named, Unknown) else ""
            cluster = re.fullmatch(r"aws_rds_cluster\.([\w-]+)(\[[^]]*\])?\.\w+", text)
            if cluster:
                found.setdefault(cluster[1], []).append(_user(block, "").class_names)
    return {name: together(each) for name, each in found.items()}


def _user(block: HclBlock, name: str) -> User:
    option = "db_cluster_instance_class"
    return User(
        name=name,
        class_names=texts(
            block.value("instance_class" if "instance_class" in block.attributes else option)
        ),
        engine=block.text("engine"),
        version=block.text("engine_version"),
        line=block.line,
    )


# Parsing.


def expression(text: str, variables: Mapping[str, Value]) -> Value:
    """Return the value of a standalone expression, as in a string of Terraform's JSON."""
    source = f"x = {text}"
    try:
        [(node, _)] = _attributes(_tree(source)).values()
        return evaluate(node, Scope(text=source, names={"local": variables}))
    except (BadValue, RecursionError, ValueError):
        return Unknown(text)


def _parsed(text: str, source: str, beside: Mapping[str, str | None]) -> tuple[HclBlock, ...]:
    body = _tree(text, source)
    defined = definitions({**trees(beside), source: (body, text)})
    return tuple(_blocks(body, Scope(text=text, defined=defined)))


def trees(files: Mapping[str, str | None]) -> dict[str, tuple[Node, str] | None]:
    """Return each file's tree and text; None for a file that cannot be read."""
    found: dict[str, tuple[Node, str] | None] = {}
    for name, text in files.items():
        found[name] = None
        with suppress(BadValue):
            found[name] = None if text is None else (_tree(text, name), text)
    return found


def definitions(
    files: Mapping[str, tuple[Node, str] | None],
) -> dict[str, dict[str, Definition]]:
    """Return the locals and variables of a module; values in .tfvars files replace defaults.

    A file that cannot be read may define any: its values are unknown, and so are then defaults.
    """
    local: dict[str, Definition] = {}
    default: dict[str, Definition] = {}
    given: dict[str, Definition] = {}
    for name, file in files.items():
        if file is None:
            continue
        body, text = file
        if is_values(name):
            given |= _as_definitions(_attributes(body), text)
            continue
        for block in _blocks(body, Scope(text=text)):
            match block:
                case HclBlock("locals"):
                    local |= _as_definitions(block.attributes, text)
                case HclBlock("variable", (label,)) if "default" in block.attributes:
                    default[label] = Definition(block.attributes["default"][0], text)
    if any(file is None and is_values(name) for name, file in files.items()):
        default, given = {}, {}
    return {"local": local, "var": {**default, **given}}


def _as_definitions(attributes: Mapping[str, tuple[Node, int]], text: str) -> dict[str, Definition]:
    return {name: Definition(node, text) for name, (node, _) in attributes.items()}


def _tree(text: str, source: str = "") -> Node:
    import hcl2
    from lark.exceptions import LarkError

    try:
        body: Node = hcl2.parses_to_tree(text).children[0]
    except LarkError as error:
        where = getattr(error, "line", None)
        at = f"{source}:{where}" if isinstance(where, int) and where > 0 else source
        raise BadValue(
            f"cannot read {at} as Terraform", "Run terraform validate for details."
        ) from None
    return body


def _blocks(body: Node, scope: Scope) -> Iterator[HclBlock]:
    for node in _children(body, "block"):
        *labels, inner = [each for each in node.children if hasattr(each, "data")]
        labels = [each for each in labels if each.data != "new_line_or_comment"]
        kind, *names = (_label(each) for each in labels)
        yield HclBlock(kind, tuple(names), inner, _attributes(inner), int(node.meta.line), scope)


def _label(node: Node) -> str:
    return "".join(str(token) for token in node.scan_values(lambda _: True)).strip('"')


def _attributes(body: Node) -> dict[str, tuple[Node, int]]:
    found = {}
    for node in _children(body, "attribute"):
        name, value = [each for each in node.children if hasattr(each, "data")]
        found[_label(name)] = (value, int(node.meta.line))
    return found


def _children(body: Node, kind: str) -> Iterator[Node]:
    return (each for each in body.children if getattr(each, "data", None) == kind)
