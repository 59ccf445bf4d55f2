"""The files of a Terraform module: its directory's configurations and values of variables.

Source: Terraform language, "Input variables": terraform.tfvars, terraform.tfvars.json, then
*.auto.tfvars and *.auto.tfvars.json by name; the last value wins.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from mrtuner.errors import MrTunerError
from mrtuner.files import read_file

_CONFIGURATIONS: Final = (".tf", ".tofu")
_ALWAYS: Final = ("terraform.tfvars", "terraform.tfvars.json")
_AUTO: Final = (".auto.tfvars", ".auto.tfvars.json")
_JSON: Final = ".json"


def is_values(name: str) -> bool:
    """Whether a file gives variables their values."""
    return name.endswith((".tfvars", ".tfvars.json"))


def files_beside(path: Path) -> dict[str, str | None]:
    """Return the texts of the other files of a configuration's module, in order of precedence.

    JSON is returned as the same values in HCL. A file that cannot be read is None: what it defines
    stays unknown.
    """
    names = sorted(each.name for each in path.parent.iterdir() if each.name != path.name)
    wanted = [name for name in names if name.endswith(_CONFIGURATIONS)]
    wanted += [name for name in _ALWAYS if name in names]
    wanted += [name for name in names if name.endswith(_AUTO)]
    return {name: _text(path.parent / name) for name in wanted}


def files_of_module(caller: Path, source: str) -> dict[str, str | None]:
    """Return the configurations of a module in a directory; none of one that is elsewhere.

    Source: Terraform language, "Module sources": a local path begins with ./ or ../.
    """
    directory = caller.parent / source
    if not source.startswith(("./", "../")) or not directory.is_dir():
        return {}
    return {
        str(each): _text(each)
        for each in sorted(directory.iterdir())
        if each.name.endswith(_CONFIGURATIONS)
    }


def _text(path: Path) -> str | None:
    try:
        text = read_file(path)
        return _as_hcl(text) if path.suffix == _JSON else text
    except (MrTunerError, ValueError):
        return None


def _as_hcl(text: str) -> str:
    """Return a JSON object's values as attributes: a JSON value is an HCL expression.

    Its texts are not templates. Raises ValueError for what is not an object.
    """
    values = json.loads(text)
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    rows = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    return rows.replace("${", "$${").replace("%{", "%%{")
