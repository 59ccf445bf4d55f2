"""A local stand-in for Amazon RDS, for tests and for trying things out."""

from rdstune.lab.lab import Lab

__all__ = ["Lab"]
