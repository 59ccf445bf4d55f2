"""Evaluate Terraform expressions, as far as possible without running Terraform.

    evaluate(node, Scope(text=text, defined={"local": {"pages": …}}))

It understands literals, arithmetic, comparisons, ternaries, templates, lists and objects,
`local.…` and `var.…` that are defined, and a few functions. A ternary with an unknown condition
gives `Either`; anything else that is unknown gives `Unknown` with the expression's own text.
Source: HCL native syntax specification, "Expressions"; Terraform language, "Functions".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from textwrap import dedent
from typing import TYPE_CHECKING, Any, Final

from rdstune.group.terraform_values import (
    FUNCTIONS,
    OPERATORS,
    NotKnown,
    Unknown,
    Value,
    either,
    joined_text,
    named_value,
    negative,
    opposite,
    plain_template,
    with_each,
    within,
    written,
)

if TYPE_CHECKING:
    from lark import Tree

    Node = Tree[Any]


@dataclass(frozen=True, slots=True)
class Definition:
    """The expression that defines a local or a variable, and the text of the file it is in."""

    node: Node
    text: str


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of names in a file."""

    text: str  # of the whole file
    #: By kind, local or var, and name.
    defined: Mapping[str, Mapping[str, Definition]] = field(default_factory=dict)
    #: A dynamic block's iterator; the variables of a module that is called.
    names: Mapping[str, Value] = field(default_factory=dict)
    open: frozenset[tuple[str, str]] = frozenset()  # definitions that are being evaluated


def evaluate(node: Node, scope: Scope) -> Value:
    """Return the value of an expression. RecursionError where it is nested too deeply."""
    try:
        return _evaluated(node, scope)
    except (NotKnown, ArithmeticError, LookupError, TypeError, ValueError):
        return Unknown(_text(node, scope))


def _evaluated(node: Node, scope: Scope) -> Value:
    try:
        return _KINDS[str(node.data)](node, scope)
    except KeyError:
        raise NotKnown from None


def _parts(node: Node) -> list[Node]:
    """Return the expressions in a node, without punctuation, line ends and comments."""
    return [
        each
        for each in node.children
        if hasattr(each, "data") and each.data != "new_line_or_comment"
    ]


def _only(node: Node, scope: Scope) -> Value:
    [part] = _parts(node)
    return _evaluated(part, scope)


def _number(node: Node, _scope: Scope) -> Value:
    return Fraction(str(node.children[0]))


def _literal(node: Node, _scope: Scope) -> Value:
    return {"true": True, "false": False, "null": None}[str(node.children[0])]


def _name(node: Node, scope: Scope) -> Value:
    return named_value(scope.names, str(node.children[0]))


def _conditional(node: Node, scope: Scope) -> Value:
    condition, yes, no = _parts(node)
    try:
        known = _evaluated(condition, scope)
    except NotKnown:
        known = None
    if isinstance(known, bool):
        return _evaluated(yes if known else no, scope)
    return either([_evaluated(yes, scope), _evaluated(no, scope)])


def _binary(node: Node, scope: Scope) -> Value:
    left, term = _parts(node)
    sign, right = _parts(term)
    compute = OPERATORS[str(sign.children[0]).strip()]
    return with_each(compute, _evaluated(left, scope), _evaluated(right, scope))


def _unary(node: Node, scope: Scope) -> Value:
    compute = negative if str(node.children[0]) == "-" else opposite
    return with_each(compute, _only(node, scope))


# Texts.


def _string(node: Node, scope: Scope) -> Value:
    parts = [_part(each, scope) for each in _parts(node)]
    if len(parts) == 1 and _is_interpolation(_parts(node)[0]):
        return parts[0]
    return with_each(joined_text, *parts)


def _is_interpolation(part: Node) -> bool:
    return any(str(each.data) == "interpolation" for each in _parts(part))


def _part(part: Node, scope: Scope) -> Value:
    if _is_interpolation(part):
        [inner] = _parts(part)
        return _only(inner, scope)
    if _parts(part):
        raise NotKnown  # a directive: %{ if … }
    return unescaped(str(part.children[0]))


_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)|(\$|%)\2\{", re.DOTALL)
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> str:
    r"""Return the text of a quoted template.

    >>> unescaped(r"$${DBInstanceVCPU*2} \"x\"")
    '${DBInstanceVCPU*2} "x"'
    """

    def plain(found: re.Match[str]) -> str:
        if found[2]:
            return f"{found[2]}{{"
        sign = found[1]
        return chr(int(sign[1:], 16)) if sign[0] in "uU" and sign[1:] else _ESCAPES.get(sign, sign)

    return _ESCAPED.sub(plain, text)


def _heredoc(node: Node, _scope: Scope) -> Value:
    lines = str(node.children[0]).splitlines()[1:-1]
    text = plain_template("\n".join([*lines, ""]) if lines else "")
    if text is None:
        raise NotKnown
    return dedent(text) if node.data == "heredoc_template_trim" else text


# Lists, objects, and what is in them.


def _tuple(node: Node, scope: Scope) -> Value:
    return [evaluate(each, scope) for each in _parts(node)]


def _object(node: Node, scope: Scope) -> Value:
    return dict(_pair(each, scope) for each in _parts(node))


def _pair(element: Node, scope: Scope) -> tuple[str, Value]:
    key, value = _parts(element)
    [inner] = _parts(key) or [key]
    bare = [one for one in inner.iter_subtrees() if str(one.data) == "identifier"]
    plain = str(inner.data) == "expr_term" and str(_parts(inner)[0].data) == "identifier"
    name = str(bare[0].children[0]) if plain else written(_evaluated(inner, scope))
    if name is None:
        raise NotKnown
    return name, evaluate(value, scope)


def _attribute(node: Node, scope: Scope) -> Value:
    owner, attribute = _parts(node)
    name = str(_parts(attribute)[0].children[0])
    kind = _identifier(owner)
    if kind in scope.defined and kind not in scope.names:
        return _defined(kind, name, scope)
    return within(_evaluated(owner, scope), name)


def _identifier(node: Node) -> str:
    inner = _parts(node)
    plain = len(inner) == 1 and inner[0].data == "identifier"
    return str(inner[0].children[0]) if plain else ""


def _defined(kind: str, name: str, scope: Scope) -> Value:
    """Return the value of a local or a variable; unknown if it refers to itself."""
    found = scope.defined[kind].get(name)
    if found is None or (kind, name) in scope.open:
        raise NotKnown
    given = {each: scope.names[each] for each in scope.names.keys() & {"var"}}
    inside = replace(scope, text=found.text, names=given, open=scope.open | {(kind, name)})
    return _evaluated(found.node, inside)


def _index(node: Node, scope: Scope) -> Value:
    owner, index = _parts(node)
    if index.data == "short_index":
        return within(_evaluated(owner, scope), Fraction(str(index.children[1])))
    return with_each(within, _evaluated(owner, scope), _only(index, scope))


# Functions.


def _call(node: Node, scope: Scope) -> Value:
    name, *given = _parts(node)
    arguments = _parts(given[0]) if given else []
    function = str(name.children[0])
    if function == "try":
        return next(_tried(arguments, scope), None)
    return with_each(FUNCTIONS[function], *(_evaluated(each, scope) for each in arguments))


def _tried(arguments: Sequence[Node], scope: Scope) -> Iterator[Value]:
    """Yield the first known value, and stop at an unknown one: at run time it might be known."""
    for each in arguments:
        found = evaluate(each, scope)
        if not isinstance(found, Unknown):
            yield found
        elif not _refers_to(each, scope.names):
            raise NotKnown


def _refers_to(node: Node, names: Mapping[str, Value]) -> bool:
    """Whether an expression reads an attribute of something whose value is fully known."""
    firsts = [one for one in node.iter_subtrees() if one.data == "identifier"]
    return any(str(one.children[0]) in names for one in firsts)


_KINDS: Final[Mapping[str, Callable[[Any, Scope], Value]]] = {
    "attribute": _only,
    "binary_op": _binary,
    "braces_index": _only,
    "conditional": _conditional,
    "expr_term": _only,
    "float_lit": _number,
    "function_call": _call,
    "get_attr_expr_term": _attribute,
    "heredoc_template": _heredoc,
    "heredoc_template_trim": _heredoc,
    "identifier": _name,
    "index_expr_term": _index,
    "int_lit": _number,
    "interpolation": _only,
    "literal_value": _literal,
    "object": _object,
    "string": _string,
    "tuple": _tuple,
    "unary_op": _unary,
}


def _text(node: Node, scope: Scope) -> str:
    """Return the expression's source text; for a template, the text between its quotes."""
    text = scope.text[node.meta.start_pos : node.meta.end_pos].strip()
    whole = re.fullmatch(r'"\$\{([^{}]*)\}"', text)
    quoted = re.fullmatch(r'"((?:[^"\\]|\\.)*)"', text)
    found = whole or quoted
    return " ".join((found[1] if found else text).split())
