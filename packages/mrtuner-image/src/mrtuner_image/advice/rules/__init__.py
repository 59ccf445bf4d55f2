"""All rules, in the order in which their patches are combined.

A rule is a function that looks at a `Situation` and yields a `Proposal` for each change that it can
make: new contents of the Dockerfile, the ignore file or another text, and the risk in one sentence.
It need not know what its change saves: that is computed, and what saves nothing is not shown.

To add one: write the function in a module of this package, and name it in RULES.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mrtuner_image.advice.rules.ignore import (
    misplaced_files,
    secrets_stay_here,
    uncopied_directories,
)
from mrtuner_image.advice.rules.late_argument import late_argument
from mrtuner_image.advice.rules.package_caches import package_caches
from mrtuner_image.advice.situation import Rule

#: By the name that the documents show.
RULES: Final[Mapping[str, Rule]] = {
    "secrets": secrets_stay_here,
    "ignore": misplaced_files,
    "ignore-uncopied": uncopied_directories,
    "late-argument": late_argument,
    "package-caches": package_caches,
}
