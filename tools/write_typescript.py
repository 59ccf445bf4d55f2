"""Print the answers of the viewer's API as TypeScript, from their JSON Schemas.

python tools/write_typescript.py > packages/mrtuner/ui/src/answers.ts
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

SCHEMAS: Final = Path(__file__).resolve().parent.parent / "docs" / "reference" / "schemas"
_KINDS: Final = ("fleet", "screen", "plan", "records")
#: Only the cells of a table may be anything.
_HEAD: Final = "export type Cell = string | number | boolean | null;"


def interfaces() -> Iterator[str]:
    """Yield one interface for each part of the answers."""
    yield _HEAD
    for kind in _KINDS:
        parts = json.loads((SCHEMAS / f"mrtuner.{kind}-1.json").read_text("utf-8"))["$defs"]
        for name, part in parts.items():
            yield f"\nexport interface {name} {{"
            for field, of in part["properties"].items():
                if meaning := of.get("description"):
                    yield f"  /** {meaning} */"
                yield f"  {field}: {_type(of)};"
            yield "}"


def _type(of: dict[str, Any]) -> str:
    match of:
        case {"$ref": str(address)}:
            found = address.rpartition("/")[2]
        case {"anyOf": choices}:
            found = " | ".join(map(_type, choices))
        case {"enum": words}:
            found = " | ".join(map(json.dumps, words))
        case {"prefixItems": items}:
            found = f"[{', '.join(map(_type, items))}]"
        case {"type": "array"}:
            found = f"({_type(of.get('items', {}))})[]"
        case _:
            found = {"integer": "number"}.get(of.get("type", ""), of.get("type", "Cell"))
    return found


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in interfaces())
