"""A container in a manifest, and what its command and variables say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final, TypeVar

from mrtuner.errors import BadValue
from mrtuner.facts import Fact
from mrtuner_pods.connections.container.commands import ContainerCommand, split
from mrtuner_pods.connections.given import Named, Uncounted, at_least, fact
from mrtuner_pods.frameworks import AppServer

_VARIABLE: Final = re.compile(r"\$\((\w+)\)|\$\{(\w+)(?::?-([^}]*))?\}|\$(\w+)")
_DEPENDENT: Final = re.compile(r"\$\((\w+)\)")
#: Variables with more options for a JVM: its own, and those of common images.
_OF_A_JVM: Final = (
    "JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JAVA_OPTS", "JAVA_OPTS_APPEND",
    "CATALINA_OPTS",
)  # fmt: skip

#: What other tools replace: SOPS, plugins of Argo CD, webhooks for Vault, vals, 1Password.
_REPLACED: Final = re.compile(r"ENC\[|<(?:path|vault):|vault:|ref\+|op://")

#: Images of PostgreSQL.
POSTGRES: Final = (
    "postgres", "postgresql", "postgresql-repmgr", "timescaledb", "timescaledb-ha", "postgis",
    "pgvector", "pgvecto-rs", "spilo", "alloydbomni",
)  # fmt: skip
POOLERS: Final = ("pgbouncer", "pgpool", "pgcat", "odyssey")
#: Images of servers and poolers, which have a database's variables but are not clients.
NOT_CLIENTS: Final = frozenset({
    *POSTGRES, *POOLERS,
    "mysql", "mariadb", "mongo", "redis", "valkey", "memcached", "rabbitmq", "nginx", "traefik",
    "haproxy", "envoy", "caddy", "minio", "elasticsearch", "opensearch", "kafka", "zookeeper",
})  # fmt: skip

T = TypeVar("T")
Environment = Mapping[str, Fact[str | None]]  # None: in a Secret or ConfigMap that is not here


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """What is known of a container, or of a process outside of any."""

    workload: str
    name: str
    where: str
    started: Sequence[ContainerCommand] = ()  # its commands, in their order
    arguments: Sequence[str] = ()  # of the application server that is looked at
    environment: Environment = field(default_factory=dict)
    image: str = ""
    starts_first: bool = False
    absent: Sequence[str] = ()  # ConfigMaps and Secrets that are not here
    files: Sequence[str] = ()  # of these, those that are mounted: they may hold its settings
    evidence: str = ""  # what shows that it uses PostgreSQL, beside its variables

    def said(self, values: Named[T], option: str) -> Fact[T] | None:
        """The value of an option for this container; None if it is not given."""
        return fact(values, self.workload, option, self.name)


def image_name(image: str) -> str:
    """Return the last part of an image's name.

    >>> image_name("registry.example:5000/edoburu/pgbouncer:v1.23.1")
    'pgbouncer'
    """
    return image.rpartition("/")[2].partition("@")[0].partition(":")[0]


def is_of_image(image: str, patterns: Sequence[str]) -> bool:
    """Whether an image has one of these names, which may have stars, in any registry.

    >>> is_of_image("ghcr.io/mastodon/mastodon:v4.3", ["mastodon"])
    True
    >>> is_of_image("shop/odoo-proxy:1", ["odoo"]), is_of_image("example/server", ["oryd/*"])
    (False, False)
    """
    before, slash, _ = image.rpartition("/")
    path = f"{before}{slash}{image_name(image)}"
    return any(fnmatchcase(path, one) or fnmatchcase(path, f"*/{one}") for one in patterns)


# Words and variables.


def written(value: object) -> str | None:
    """Return a value of a manifest as text; None where another tool puts its own in its place."""
    text = str(value)
    return None if _REPLACED.match(text) else text


def expanded(command: Sequence[object], environment: Environment) -> tuple[str, ...]:
    """Return the words of a command with the values of its variables."""
    return tuple(
        _VARIABLE.sub(lambda match: _expanded(match, environment), str(part)) for part in command
    )


def dependent(text: str, environment: Environment) -> str:
    """Return a variable's text with each ``$(NAME)`` expanded, as Kubernetes does."""
    return _DEPENDENT.sub(lambda match: _expanded(match, environment), text)


def _expanded(match: re.Match[str], environment: Environment) -> str:
    name, default = (*filter(None, match.groups()), "")[:2]
    known = environment.get(name)
    return (known.value if known and known.value else None) or default or match[0]


def variable(environment: Environment, names: Sequence[str]) -> Fact[str] | None:
    """The first of these variables that has a value."""
    for name in names:
        for one, found in environment.items():
            if found.value and matches(one, name):
                return Fact(found.value, found.source)
    return None


def matches(name: str, pattern: str) -> bool:
    """Whether a variable's name is one that a table lists: in any case, a star for any letters.

    >>> matches("ConnectionStrings__Default", "CONNECTIONSTRINGS__*"), matches("POOL", "POOL_SIZE")
    (True, False)
    """
    return fnmatchcase(name.upper(), pattern)


def option(container: Container, server: AppServer, names: Sequence[str]) -> Fact[str] | None:
    """An option on the server's command line, else in its variable for options."""
    if (found := _in_words(container.arguments, names)) is not None:
        return Fact(found, f"{container.where}: {server.title}'s option {names[0]}")
    more = container.environment.get(server.arguments or "")
    if more is not None and more.value:
        words = split(*expanded([more.value], container.environment))
        if (inside := _in_words(words, names)) is not None:
            return Fact(inside, more.source)
    return None


def option_of_program(container: Container, names: Sequence[str]) -> Fact[str] | None:
    """The first of these options that a command of the container has, or a JVM's variable."""
    words = [word for command in container.started for word in command.words]
    for name in names:
        if (found := _in_words(words, [name])) is not None:
            return Fact(found, f"{container.where}: option {name}")
    for more in _OF_A_JVM:
        told = container.environment.get(more)
        if told is not None and told.value:
            inside = _in_words(split(*expanded([told.value], container.environment)), names)
            if inside is not None:
                return Fact(inside, told.source)
    return None


def _in_words(words: Sequence[str], names: Sequence[str]) -> str | None:
    for place, word in enumerate(words):
        for name in names:
            if word == name and place + 1 < len(words):
                return words[place + 1]
            if word.startswith(f"{name}="):
                return word[len(name) + 1 :]
            if len(name) == 2 and word.startswith(name) and word[2:3].isdigit():
                return word[2:]
    return None


def whole(told: Fact[str], least: int) -> int:
    """Return a text as a whole number; BadValue for anything else, or less than `least`."""
    text = told.value.strip().strip("'\"")
    if "$" in text:
        raise Uncounted(f"{told.source}: {text} is filled in elsewhere", "Give its value.")
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise BadValue(
            f"{told.source}: {text!r} is not a whole number", "Use only digits: 1000, not 1e3."
        )
    return at_least(least, int(text), told.source)
