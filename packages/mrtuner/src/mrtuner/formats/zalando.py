"""Zalando's operator: a merge patch for a ``postgresql`` of acid.zalan.do/v1.

Source: postgres-operator 1.14, pkg/apis/acid.zalan.do/v1/crds.go (parameters are strings);
Spilo, postgres-appliance/scripts/configure_spilo.py (what the image sets); Patroni.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.formats import manifest, patroni
from mrtuner.formats.line import Format, Line, divide

#: Spilo archives, ships logs, encrypts and loads its own list of libraries, including
#: pg_stat_statements: our list would replace it and remove the operator's extensions.
OWNED: Final = patroni.OWNED | {
    "archive_command", "archive_mode", "log_destination", "log_directory", "log_file_mode",
    "log_filename", "log_rotation_age", "log_truncate_on_rotation", "logging_collector",
    "restore_command", "shared_preload_libraries", "ssl", "ssl_ca_file", "ssl_cert_file",
    "ssl_crl_file", "ssl_key_file",
}  # fmt: skip

_PATH = ("spec", "postgresql", "parameters")


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return ``spec.postgresql.parameters``."""
    ours, theirs = divide(lines, OWNED)
    ours, said = patroni.accepted(ours)
    notes = [
        title,
        "Apply: kubectl patch postgresql NAME --type merge --patch-file FILE",
        *said,
        *manifest.left_out(theirs, "the operator with its image"),
    ]
    document = {
        "apiVersion": "acid.zalan.do/v1",
        "kind": "postgresql",
        "spec": {"postgresql": {"parameters": manifest.parameters(ours)}},
    }
    return manifest.manifest(document, ours, notes)


def read(text: str) -> dict[str, str]:
    """Return ``spec.postgresql.parameters``."""
    return manifest.values(manifest.load(text, _PATH))


FORMAT = Format(
    name="zalando",
    summary="Zalando's operator: patch for a postgresql (acid.zalan.do/v1)",
    write=write,
    read=read,
    container=True,
    orders_standbys=True,
)
