"""Package managers: their install commands, the manifests they read, the caches they leave.

To add one, add an entry to PACKAGE_MANAGERS, which the rule `manifests_first` reads, or to
PACKAGE_CACHES, which `package_caches` reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class PackageManager:
    """One package manager."""

    name: str
    #: A command that needs the manifests and nothing else of the source.
    installs: re.Pattern[str]
    #: At least one of these, which name what to install, must be copied.
    manifests: tuple[str, ...]
    #: Copied as well where they exist.
    beside: tuple[str, ...] = ()
    #: Text in a manifest that shows that the installation needs more of the source.
    needs_source: re.Pattern[str] | None = None


def _entry(
    name: str, installs: str, manifests: str, beside: str = "", needs_source: str = ""
) -> PackageManager:
    return PackageManager(
        name, re.compile(installs), tuple(manifests.split()), tuple(beside.split()),
        re.compile(needs_source, re.MULTILINE) if needs_source else None,
    )  # fmt: skip


_NPM_NEEDS: Final = (
    r'"(pre|post)?install"\s*:|"prepare"\s*:|"workspaces"\s*:|"(file|link|portal):|yarnPath'
)
#: Cargo is left out: it refuses a manifest without the sources that it names. So is Gradle, whose
#: build files may be anywhere, and run code.
PACKAGE_MANAGERS: Final = (
    # `pip install .` and `-e .` install the source itself.
    _entry(
        "pip",
        r"(python3? -m )?pip3? install\b(?=.* (-r|--requirement)[ =])(?!.* (-e |\.(/|$|\s)))",
        "requirements*.txt", "constraints*.txt requirements/*.txt",
        r"^\s*(-e\b|--editable\b|\.|file:|[\w.-]+ @ file:|-[rc]\s*(?!\s|requirements|constraints))",
    ),
    _entry("pipenv", r"pipenv (install|sync)\b", "Pipfile", "Pipfile.lock", r"path\s*=|editable"),
    _entry(
        "poetry", r"poetry (install|sync)\b.*--no-root",
        "pyproject.toml", "poetry.lock poetry.toml",
        r"path\s*=|develop\s*=",
    ),
    _entry(
        "uv", r"uv sync\b.*--no-install-project", "pyproject.toml", "uv.lock .python-version",
        r"path\s*=|workspace\s*=",
    ),
    _entry("npm", r"npm (ci|install|i)(?!\S)(?! +[\w@])", "package.json",
           "package-lock.json npm-shrinkwrap.json .npmrc", _NPM_NEEDS),
    _entry("yarn", r"yarn( install)?( --[\w=-]+)*$", "package.json",
           "yarn.lock .yarnrc .yarnrc.yml .npmrc", _NPM_NEEDS),
    _entry("pnpm", r"pnpm (i|install|fetch)( --[\w=-]+)*$", "package.json",
           "pnpm-lock.yaml .npmrc", _NPM_NEEDS),
    _entry("bundler", r"bundle( install)?( --?[\w=./-]+( [\w./-]+)?)*$", "Gemfile",
           "Gemfile.lock .ruby-version .bundle/config", r"^\s*gemspec|\bpath:|:path\s*=>"),
    _entry("go", r"go mod download\b", "go.mod", "go.sum", r"=>\s*\.|^replace\s*\("),
    _entry("composer", r"composer install\b(?=.*--no-scripts)(?=.*--no-autoloader)",
           "composer.json", "composer.lock", r'"type"\s*:\s*"path"'),
    _entry("maven", r"(\./)?mvnw? .*dependency:(go-offline|resolve)", "pom.xml", "",
           r"<modules>|<relativePath>"),
    _entry("mix", r"mix deps\.get\b", "mix.exs", "mix.lock", r"\bpath:"),
    _entry("nuget", r"dotnet restore$", "*.csproj", "packages.lock.json NuGet.Config",
           r"<ProjectReference|<Import "),
)  # fmt: skip


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
