"""A local stand-in for Amazon RDS, for tests and for trying things out."""

from mrtuner.rds.lab.lab import Lab
from mrtuner.rds.lab.world import Delays

__all__ = ["Delays", "Lab"]
