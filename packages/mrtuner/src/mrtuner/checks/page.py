"""A `mrtuner.check/1` document as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mrtuner.checks.text import follows, since, unjudged
from mrtuner.present.html import rendered

if TYPE_CHECKING:
    from mrtuner.checks.document import CheckDocument


def page(told: CheckDocument) -> str:
    """Return the answer as one HTML document. Raises MissingPart without jinja2."""
    found = [(one, server.target) for server in told.servers for one in server.findings]
    return rendered(
        Path(__file__).with_suffix(".html"),
        told=told,
        found=sorted(found, key=lambda pair: pair[0].urgency),
        many=len(told.servers) > 1,
        since=since,
        follows=follows,
        unjudged=unjudged,
    )
