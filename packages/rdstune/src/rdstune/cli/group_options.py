"""The options of what a parameter group is designed for."""

from __future__ import annotations

from typing import Final

import click

from mrtuner.cli.common import options

#: The names are those of `rdstune.group.derive.design`.
GROUP_OPTIONS: Final = options.stacked(
    click.option("--class", "class_name", required=True, metavar="CLASS",
                 help="Instance class, such as db.r6g.xlarge."),
    click.option(
        "--family", "family_name", required=True, metavar="FAMILY",
        help="Parameter group family, such as postgres17 or aurora-postgresql16.",
    ),
    options.declared_option("workload", default="mixed"),
    options.declared_option("connections"),
    options.declared_option("disk", "storage", help="Size of the volume.  [default: 100GB]"),
    click.option("--smallest", metavar="CLASS",
                 help="Smallest class that the group has to fit.  [default: every class]"),
)  # fmt: skip
