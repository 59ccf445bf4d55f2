"""Settings written for each client stack: one file per stack.

To add a stack, put a module with a STACK into this folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType
from typing import Final

from mrtuner.failover.settings.stacks.stack import Stack

__all__ = ["STACKS", "Stack"]


#: What several stacks share; every other module here is a stack.
_SHARED: Final = frozenset({"python", "stack"})


def _stacks() -> Iterator[Stack]:
    for module in iter_modules(__path__):
        if module.name not in _SHARED:
            yield import_module(f"{__name__}.{module.name}").STACK


STACKS: Final[Mapping[str, Stack]] = MappingProxyType({stack.name: stack for stack in _stacks()})
