"""Major versions: until when the project fixes them."""

from __future__ import annotations

from datetime import date

from mrtuner.catalog.load import table


def end_of_support(major: int) -> date | None:
    """Return the date of a major version's last minor release; None for one younger than our table.

    Source: postgresql.org, Versioning Policy.
    """
    ends = table("versions.json")["ends"].get(str(major))
    return None if ends is None else date.fromisoformat(ends)
