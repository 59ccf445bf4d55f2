"""Docker Compose: an override file whose service starts ``postgres -c name=value …``.

Compose replaces ``$NAME`` in values, so a dollar sign is doubled. Source: the Compose
specification, "Interpolation"; PostgreSQL's reference page of postgres, option -c.
"""

from __future__ import annotations

from collections.abc import Sequence

from mrtuner.errors import BadValue
from mrtuner.formats import manifest
from mrtuner.formats.line import Format, Line


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return an override file for compose.yaml; the service is called postgres."""
    notes = [
        title,
        "Apply: docker compose -f compose.yaml -f FILE up -d",
        "Rename the service to yours. ALTER SYSTEM cannot change what the command line sets.",
        "Parallel queries share memory in /dev/shm, which has 64 MB in a container unless "
        "shm_size sets more.",
    ]
    command: list[str] = ["postgres"]
    for line in lines:
        argument = f"{line.name}={line.value}".replace("$", "$$")
        command += [manifest.Text("-c"), manifest.Text(argument)]
    document = {"services": {"postgres": {"command": command}}}
    return manifest.manifest(document, lines, notes, key=manifest.ARGUMENT, above=1)


def read(text: str) -> dict[str, str]:
    """Return what the first service's command sets with -c."""
    for service in manifest.load(text, ("services",)).values():
        command = service.get("command") if isinstance(service, dict) else None
        if isinstance(command, list):
            return dict(_settings([str(word) for word in command]))
    raise BadValue("no service in this file has a command written as a list")


def _settings(words: Sequence[str]) -> list[tuple[str, str]]:
    arguments = [words[at + 1] for at, word in enumerate(words[:-1]) if word == "-c"]
    pairs = (argument.replace("$$", "$").partition("=") for argument in arguments)
    return [(name, value) for name, _, value in pairs]


FORMAT = Format(
    name="docker",
    summary="Docker Compose: a service that starts postgres -c name=value",
    write=write,
    read=read,
    container=True,
)
