"""Remove package caches in the line that creates them: a later line is too late.

To add a package manager, add an entry to PACKAGE_CACHES.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from mrtuner_image.advice.situation import Proposal, Situation, appended, replaced
from mrtuner_image.cache import Step
from mrtuner_image.layers import shipped
from mrtuner_image.shell import commands


@dataclass(frozen=True, slots=True)
class PackageCache:
    """What an installation leaves behind that the image does not need."""

    name: str
    #: A command that leaves it.
    left_by: re.Pattern[str]
    #: Anything in the same line that shows it is gone, or not in the image.
    gone: re.Pattern[str]
    #: A command to append to the same line; empty if there is an `option`.
    removal: str = ""
    #: Words of the command, and the option to insert after them.
    option: tuple[str, str] | None = None
    #: The command that recreates it, if an installation fails without it.
    made_by: re.Pattern[str] | None = None


def _cache(
    name: str,
    left_by: str,
    gone: str,
    removal: str = "",
    option: tuple[str, str] | None = None,
    made_by: str = "",
) -> PackageCache:
    made = re.compile(made_by) if made_by else None
    return PackageCache(name, re.compile(left_by), re.compile(gone), removal, option, made)


PACKAGE_CACHES: Final = (
    _cache("apt", r"(apt-get|apt) ([\w=-]+ )*(install|upgrade|dist-upgrade)\b",
           r"/var/lib/apt/lists|apt-get distclean",
           removal="apt-get clean && rm -rf /var/lib/apt/lists/*",
           made_by=r"(apt-get|apt) ([\w=-]+ )*update\b"),
    _cache("apk", r"apk ([\w=-]+ )*add\b", r"--no-cache|/var/cache/apk",
           option=("apk add", "--no-cache")),
    _cache("dnf", r"dnf ([\w=-]+ )*install\b", r"dnf clean|/var/cache/(dnf|yum)",
           removal="dnf clean all"),
    _cache("microdnf", r"microdnf ([\w=-]+ )*install\b", r"microdnf clean",
           removal="microdnf clean all"),
    _cache("yum", r"yum ([\w=-]+ )*install\b", r"yum clean|/var/cache/yum",
           removal="yum clean all"),
    _cache("zypper", r"zypper ([\w=-]+ )*(in|install)\b", r"zypper clean|/var/cache/zypp",
           removal="zypper clean --all"),
    _cache("pip", r"(python3? -m )?pip3? install\b",
           r"--no-cache-dir|PIP_NO_CACHE_DIR|\.cache/pip|pip3? cache purge",
           option=("install", "--no-cache-dir")),
    _cache("npm", r"npm (ci|install|i)\b", r"npm cache clean|\.npm\b|npm_config_cache",
           removal="npm cache clean --force"),
    _cache("yarn", r"yarn( install|$| --)", r"yarn cache clean|YARN_CACHE",
           removal="yarn cache clean"),
    _cache("composer", r"composer install\b", r"composer clear-?cache|COMPOSER_CACHE",
           removal="composer clear-cache"),
    _cache("conda", r"(conda|mamba) install\b", r"(conda|mamba) clean", removal="conda clean -afy"),
)  # fmt: skip


def package_caches(now: Situation) -> Iterator[Proposal]:
    """One proposal for each line and kind of cache, in the stages that the image contains."""
    inside = shipped(now.model.wanted)
    for stage in now.model.stages:
        if stage.stage.index not in inside:
            continue
        for step in stage.steps:
            if step.instruction.name != "RUN" or step.instruction.text.startswith("["):
                continue
            if step.instruction.keeps_cache:  # perhaps this one, which is then in no layer
                continue
            for cache in PACKAGE_CACHES:
                text = step.instruction.original
                if cache.gone.search(text) or _set_aside(now, cache) or _needed(now, step, cache):
                    continue
                if cache.name == "yarn" and _keeps_packages_in_cache(now):
                    continue
                block = _without(now.block(step.instruction), step, cache)
                if block is not None:
                    how = " ".join(cache.option) if cache.option else cache.removal
                    yield Proposal(
                        f"{cache.name} {commands(step.instruction.text)[0].text}",
                        f"leave no cache of {cache.name} in line {step.instruction.line}: {how}",
                        _RISK.format(cache.name),
                        now.recipe([replaced(step.instruction, block)]),
                    )


def _needed(now: Situation, step: Step, cache: PackageCache) -> bool:
    """Whether this or a later line installs without recreating what this one would remove."""
    if cache.made_by is None:
        return False
    installing = [
        other.instruction.text
        for stage in now.model.stages
        for other in stage.steps
        if other is step
        or (other.instruction.name == "RUN" and other.instruction.line > step.instruction.line)
    ]
    return any(cache.left_by.search(text) and not cache.made_by.search(text) for text in installing)


def _keeps_packages_in_cache(now: Situation) -> bool:
    """Whether Yarn 2 or later runs the packages from its cache: without it nothing is installed.

    Source: yarnpkg.com, Plug'n'Play and zero-installs.
    """
    names = {entry.path.rpartition("/")[2] for entry in now.model.context.entries}
    return bool(names & {".yarnrc.yml", ".pnp.cjs", ".pnp.js"})


def _set_aside(now: Situation, cache: PackageCache) -> bool:
    """Whether an ENV or ARG turns the cache off, or keeps it elsewhere."""
    return any(
        cache.gone.search(step.instruction.text)
        for stage in now.model.stages
        for step in stage.steps
        if step.instruction.name in {"ENV", "ARG"}
    )


_RISK: Final = "The image lacks the cache of {}: a later line that installs more fetches it again."


def _without(block: str, step: Step, cache: PackageCache) -> str | None:
    """The line changed to leave no cache; None if it leaves none or cannot be changed."""
    leaving = [
        command
        for command in commands(step.instruction.text)
        if cache.left_by.match(" ".join(command.words))
    ]
    if not leaving:
        return None
    if cache.option is None:
        return appended(block, cache.removal)
    words, option = cache.option
    for command in leaving:
        text = command.text
        if words in text:
            if block.count(text) != 1:
                return None
            block = block.replace(text, text.replace(words, f"{words} {option}", 1))
    return block
