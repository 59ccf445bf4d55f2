"""The settings of sessions that ordinary roles may not open."""

from __future__ import annotations

from typing import Final

#: max_connections must be larger than the sum of these. The second is new in 16.
RESERVED: Final = ("superuser_reserved_connections", "reserved_connections")
#: Also reserved by RDS and Aurora: for rds_superuser before 16, and for RDS itself.
#: Source: RDS User Guide, parameters of RDS for PostgreSQL; read on live instances of 16.
OF_RDS: Final = ("rds.rds_superuser_reserved_connections", "rds.rds_reserved_connections")
