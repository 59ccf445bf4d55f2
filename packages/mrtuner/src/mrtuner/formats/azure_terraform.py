"""Azure Database for PostgreSQL flexible server in Terraform and OpenTofu, by parameter.

Source: azurerm provider 5.6, azurerm_postgresql_flexible_server_configuration (a static parameter
restarts the server unless restart_server_on_configuration_value_change is false).
"""

from __future__ import annotations

from collections.abc import Sequence

from mrtuner.catalog.platforms import platform
from mrtuner.formats import managed
from mrtuner.formats.azure import PLATFORM, divided
from mrtuner.formats.line import Format, Line, comments, restarts
from mrtuner.formats.managed import quoted

__all__ = ["FORMAT", "PLATFORM"]

_RESOURCE = "azurerm_postgresql_flexible_server_configuration"


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return one resource per parameter, for the server resource named postgres."""
    ours, left_out = divided(lines)
    notes = comments([
        title,
        "Rename azurerm_postgresql_flexible_server.postgres to yours.",
        *restarts(
            ours,
            "Applying restarts the server, unless the provider's feature "
            "restart_server_on_configuration_value_change is false, for",
        ),
        *left_out,
    ])  # fmt: skip
    return notes + "\n".join(_resource(line) for line in ours)


def _resource(line: Line) -> str:
    reason = f"# {line.reason}\n" if line.reason else ""
    return (
        f'{reason}resource "{_RESOURCE}" {quoted(line.name.replace(".", "_"))} {{\n'
        f"  name      = {quoted(line.name)}\n"
        "  server_id = azurerm_postgresql_flexible_server.postgres.id\n"
        f"  value     = {quoted(line.value)}\n"
        "}\n"
    )


def read(text: str) -> dict[str, str]:
    """Return the parameters of every resource, in PostgreSQL's notation."""
    block = rf'resource\s+"{_RESOURCE}"\s+"[^"\n]*"'
    return managed.shown(platform(PLATFORM), managed.hcl_pairs(text, block))


FORMAT = Format(
    name="azure-terraform", summary="Azure flexible server: Terraform resources",
    write=write, read=read, standbys=managed.REPLICAS, linux=True,
)  # fmt: skip
