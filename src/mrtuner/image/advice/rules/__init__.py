"""All rules, in the order in which their patches are combined.

A rule is a function that looks at a `Situation` and yields a `Proposal` for each change that it can
make: new contents of the Dockerfile, the ignore file or another text, and the risk in one sentence.
It need not know what its change saves: that is computed, and what saves nothing is not shown.

To add one: write the function in a module of this package, and name it in RULES.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mrtuner.image.advice.rules.asset_stage import assets_in_a_stage
from mrtuner.image.advice.rules.copied_twice import copied_twice
from mrtuner.image.advice.rules.copy_chown import copy_with_its_owner
from mrtuner.image.advice.rules.copy_link import copy_link
from mrtuner.image.advice.rules.deleted_later import deleted_copies, removed_where_made
from mrtuner.image.advice.rules.dependencies_first import dependencies_first
from mrtuner.image.advice.rules.fixed_timestamps import fixed_timestamps
from mrtuner.image.advice.rules.ignore import (
    misplaced_files,
    recipe_files,
    secrets_stay_here,
    uncopied_directories,
)
from mrtuner.image.advice.rules.late_argument import late_argument
from mrtuner.image.advice.rules.manifests_first import manifests_first
from mrtuner.image.advice.rules.package_caches import package_caches
from mrtuner.image.advice.rules.source_last import source_last
from mrtuner.image.advice.situation import Rule

#: By the name that the documents show.
RULES: Final[Mapping[str, Rule]] = {
    "secrets": secrets_stay_here,
    "ignore": misplaced_files,
    "ignore-uncopied": uncopied_directories,
    "ignore-recipe": recipe_files,
    "copied-twice": copied_twice,
    "deleted-copies": deleted_copies,
    "copy-chown": copy_with_its_owner,
    "late-argument": late_argument,
    "manifests-first": manifests_first,
    "dependencies-first": dependencies_first,
    "removed-where-made": removed_where_made,
    "package-caches": package_caches,
    "asset-stage": assets_in_a_stage,
    "source-last": source_last,
    "copy-link": copy_link,
    "fixed-timestamps": fixed_timestamps,
}
