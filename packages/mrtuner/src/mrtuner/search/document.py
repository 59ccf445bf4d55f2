"""A search as JSON: ``mrtuner.search/1``."""

from __future__ import annotations

from mrtuner.documents import Document, fields_of
from mrtuner.search.model import Search


@fields_of(Search)
class SearchDocument(Document, tag="mrtuner.search/1"):
    """`search.json`, the record of `mrtuner search`, which `mrtuner search --json` also prints.

    The file is replaced after each trial. `mrtuner search --resume` goes on where it ends.
    """
