"""The commands of `rdstune`, which are those of `mrtuner rds`: one file per command."""

from __future__ import annotations

from mrtuner.cli import rdstune as command

__all__ = ["command"]
