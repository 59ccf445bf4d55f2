"""Puppet: Hiera data for the module puppetlabs-postgresql, ``postgresql::server::config_entries``.

The module puts a value between single quotes unchanged, so quotes and backslashes are doubled here.
Hiera interpolates ``%{…}``, so its percent sign becomes a call of literal(). Source:
puppetlabs-postgresql
6.7 to 10, manifests/server.pp (config_entries) and server/instance/config.pp,
lib/puppet/provider/postgresql_conf; Puppet documentation, "Interpolation in Hiera".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from mrtuner.formats import manifest
from mrtuner.formats.line import Format, Line, divide, restarts
from mrtuner.postgres import conf_file

#: The module declares these entries itself; a second one is a duplicate declaration.
OWNED: Final = frozenset({
    "data_directory", "listen_addresses", "password_encryption", "port",
})  # fmt: skip
_KEY: Final = "postgresql::server::config_entries"
_SIGN: Final = "%{"
_LITERAL: Final = "%{literal('%')}{"


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a file of Hiera data."""
    ours, theirs = divide(lines, OWNED)
    notes = [
        title,
        "Apply: put it into a file of your hierarchy; the node's class is "
        "postgresql::server. Hiera uses the hash of the first file that has it, unless "
        "lookup_options merges them.",
        *restarts(
            ours,
            "Puppet restarts the server when one of these changes, unless "
            "postgresql::server::service_restart_on_change is false",
        ),
        *manifest.left_out(theirs, "the module"),
    ]
    entries = [
        replace(line, value=conf_file.escaped(line.value).replace(_SIGN, _LITERAL)) for line in ours
    ]
    return manifest.manifest({_KEY: manifest.parameters(entries)}, entries, notes)


def read(text: str) -> dict[str, str]:
    """Return the entries as configuration text."""
    entries = manifest.values(manifest.load(text, (_KEY,)))
    return {
        name: conf_file.unescaped(value.replace(_LITERAL, _SIGN)) for name, value in entries.items()
    }


FORMAT = Format(
    name="puppet", summary="Puppet: Hiera data for puppetlabs-postgresql",
    write=write, read=read, linux=True,
)  # fmt: skip
