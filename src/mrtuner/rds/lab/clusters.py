"""DB clusters."""

from mrtuner.rds.lab.world import Instance, Region


def joined(region: Region, instance: Instance) -> None:
    """A member more."""
