"""Build assets in a separate stage: if they come out identical, they are not pushed again."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from mrtuner.image.advice.situation import Edit, Proposal, Situation, inserted, removed
from mrtuner.image.cache import PlannedStage, Step
from mrtuner.image.shell import commands

#: Commands that build assets, and the directory that they make, relative to where they work.
_BUILDS: Final = (
    (re.compile(r"(bundle exec )?(rake|rails|(\./)?bin/(rake|rails)) assets:precompile$"),
     "public/assets"),
    (re.compile(r"(npx )?vite build$"), "dist"),
    (re.compile(r"(npx )?ng build$"), "dist"),
    (re.compile(r"hugo( --minify)?$"), "public"),
    (re.compile(r"mkdocs build$"), "site"),
)  # fmt: skip
_NAME: Final = "assets"
_BELOW: Final = "prepared"


def assets_in_a_stage(now: Situation) -> Iterator[Proposal]:
    """One proposal for a line of the last stage that builds assets and nothing else."""
    stages = list(now.stages())
    stage = stages[-1]
    if any(one.stage.name in {_NAME, _BELOW} for one in stages):
        return
    if any(step.instruction.name in {"ARG", "ONBUILD"} for step in stage.steps):
        return  # an ARG ends with its stage
    for place, step in enumerate(stage.steps):
        made = _made(step)
        copies = [n for n in range(place) if stage.steps[n].copied]
        if made and copies and not _runs(stage, copies[-1] + 1, place):
            yield Proposal(
                step.instruction.text,
                f"build {posixpath.basename(made)} in a separate stage and copy {made} from it",
                f"What the build writes outside {made}, such as caches and logs, is not in the "
                "image.",
                now.recipe(_edits(now, stage, copies[-1], place, made)),
            )
            return


def _made(step: Step) -> str:
    """The directory of assets that a line creates; empty if it does not only build assets."""
    found = commands(step.instruction.text)
    if step.instruction.name != "RUN" or len(found) != 1 or step.instruction.flags:
        return ""
    text = " ".join(found[0].words)
    for build, made in _BUILDS:
        if build.match(text) and step.at.startswith("/"):
            return posixpath.join(step.at, made)
    return ""


def _runs(stage: PlannedStage, start: int, end: int) -> bool:
    return any(step.instruction.name == "RUN" for step in stage.steps[start:end])


def _edits(now: Situation, stage: PlannedStage, source: int, place: int, made: str) -> list[Edit]:
    """Split the stage in three: lines above the source, the build of assets, the rest."""
    steps, start = stage.steps, stage.stage.start
    named = len(start.words) == 3
    name = stage.stage.name if named else _BELOW
    edits = (
        []
        if named
        else [Edit(start.end, start.end + 1, (f"{_last_row(now, start.end)} AS {name}",))]
    )
    copy = steps[source].instruction
    between = [now.block(step.instruction) for step in steps[source + 1 : place]]
    run = steps[place].instruction
    stage_of_assets = [
        f"FROM {name} AS {_NAME}", now.block(copy), *between, now.block(run), "", f"FROM {name}",
    ]  # fmt: skip
    users = [step.instruction.text for step in steps[:place] if step.instruction.name == "USER"]
    owner = f"--chown={users[-1]} " if users and users[-1] not in {"root", "0"} else ""
    taken = f"COPY --from={_NAME} {owner}{made} {made}"
    return [
        *edits,
        inserted(now.start(copy), "", *stage_of_assets),
        removed(now, run),
        inserted(copy.end + 1, taken),
    ]


def _last_row(now: Situation, number: int) -> str:
    return now.tree.recipe.split("\n")[number - 1].rstrip()
