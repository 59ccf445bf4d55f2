"""Benchmark records in a directory: what `mrtuner bench`, `prove --json` and `demo` wrote there.

A record is a directory with run.json, or a JSON document ``mrtuner.report``. Its page is the one
that `mrtuner bench report --html` or the demo writes, adapted to the viewer's content security
policy: the style sheet is a separate file, and no element has a style of its own.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from mrtuner.errors import BadValue, MrTunerError, UsageError
from mrtuner.web.document import BenchmarkRecord, RecordsAnswer

_HEAD: Final = "run.json"
_REPORT: Final = "mrtuner.report/"
#: How deep directories are searched.
_DEPTH: Final = 3
#: The most records listed, since each has to be read.
_MOST: Final = 500
#: A larger document is not a report [bytes].
_LARGEST: Final = 256 * 2**20
#: Number of pages kept, since drawing the charts of one takes a second.
_KEPT: Final = 8

_STYLE: Final = re.compile(r"<style>(.*?)</style>", re.DOTALL)
_POLICY: Final = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>\n?')
_TAG: Final = re.compile(r"<[A-Za-z][^<>]*>")
_DECLARATIONS: Final = re.compile(r' style="([^"]*)"')


@dataclass(frozen=True, slots=True)
class ReportPage:
    """A report as a page without any style or script in it, and its style."""

    html: str
    style: str


@dataclass(slots=True)
class Records:
    """The records below a directory, read again when they have changed."""

    directory: Path
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _listed: dict[tuple[str, int], BenchmarkRecord] = field(default_factory=dict)
    _pages: dict[tuple[str, int], ReportPage] = field(default_factory=dict)

    def answer(self) -> RecordsAnswer:
        """Return all records, the latest first; for those that cannot be read, the reason."""
        with self._lock:
            self._listed = {
                (name, changed): self._listed.get((name, changed)) or _described(name, path)
                for name, path, changed in self._found()
            }
            latest = sorted(self._listed.values(), key=lambda one: (-(one.at or 0.0), one.name))
        return RecordsAnswer(directory=str(self.directory), records=latest)

    def page(self, name: str) -> ReportPage:
        """Return the report of one record.

        Raises:
            UsageError: there is no record of this name.
            BadValue: it is damaged, or nothing was measured.
            MissingPart: matplotlib or another package is not installed.
        """
        found = next((one for one in self._found() if one[0] == name), None)
        if found is None:
            raise UsageError(f"there is no record {name}", "The page lists the existing ones.")
        _, path, changed = found
        key = (name, changed)
        with self._lock:  # matplotlib draws one at a time
            if key not in self._pages:
                while len(self._pages) >= _KEPT:
                    self._pages.pop(next(iter(self._pages)))
                address = f"style?{urlencode({'name': name})}"
                self._pages[key] = without_inline_style(_drawn(path), address)
            return self._pages[key]

    def _found(self) -> Iterator[tuple[str, Path, int]]:
        """Yield name, path and change of what is or may be a record, by path; at most `_MOST`."""
        for path in sorted(set(_candidates(self.directory, _DEPTH)))[:_MOST]:
            yield str(path.relative_to(self.directory)), path, _changed(path)


def _candidates(directory: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(directory.iterdir())
    except OSError:
        return
    if directory / _HEAD in entries:
        yield directory
        return
    for path in entries:
        if path.is_symlink():  # It may lead elsewhere.
            continue
        if path.is_dir() and depth:
            yield from _candidates(path, depth - 1)
        elif path.suffix == ".json" and path.is_file():
            yield path


def _changed(path: Path) -> int:
    files = [path, *(path / name for name in (_HEAD, "lines.jsonl") if path.is_dir())]
    return max((file.stat().st_mtime_ns for file in files if file.exists()), default=0)


def _described(name: str, path: Path) -> BenchmarkRecord:
    try:
        return _of_run(name, path) if path.is_dir() else _of_report(name, path)
    except MrTunerError as error:
        return BenchmarkRecord(
            name=name, at=None, compared="", answer="", verdict=None, error=error.message
        )


def _of_run(name: str, path: Path) -> BenchmarkRecord:
    from mrtuner.bench.record.archive import load
    from mrtuner.bench.report.text import answer
    from mrtuner.bench.verdict.judge import require_samples, verdicts

    record = load(path)
    require_samples(record)
    seen = verdicts(record)
    kinds = {str(one.verdict) for one in seen}
    loads = ", ".join(dict.fromkeys(cell.workload for cell in record.cells()))
    return BenchmarkRecord(
        name=name, at=_moment(record.started),
        compared=f"{', '.join(record.plan.names)}: {loads}", answer=answer(record, seen),
        verdict=kinds.pop() if len(kinds) == 1 else None, error=None,
    )  # fmt: skip


def _of_report(name: str, path: Path) -> BenchmarkRecord:
    from mrtuner.bench.report.gains import answer
    from mrtuner.bench.series import from_dict

    series = from_dict(_report(path)["proof"])
    titles = ", ".join(one.title for one in series.measured)
    started = [one.record.started for one in series.findings]
    return BenchmarkRecord(
        name=name, at=_moment(min(started)) if started else None,
        compared=f"default settings, advised settings: {titles}",
        answer=answer(series).headline, verdict=str(series.verdict), error=None,
    )  # fmt: skip


def _drawn(path: Path) -> str:
    if path.is_dir():
        from mrtuner.bench.record.archive import load
        from mrtuner.bench.report.page import page

        return page(load(path))
    from mrtuner.bench.series import from_dict
    from mrtuner.documents import convert, read
    from mrtuner.tuning.document import AppliedSide, TuneDocument
    from mrtuner.tuning.report import page as tuning_page

    found = _report(path)
    applied = found.get("applied")
    return tuning_page.page(
        read(found["tuning"], TuneDocument),
        from_dict(found["proof"]),
        applied=None if applied is None else convert(applied, AppliedSide),
    )


def _report(path: Path) -> dict[str, Any]:
    """Return the document of a report.

    Raises:
        BadValue: the file cannot be read, or is not a report with a proof.
    """
    try:
        if path.stat().st_size > _LARGEST:
            raise BadValue("the file is too large for a report", "Remove it.")
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise BadValue(
            f"the file cannot be read: {error.strerror}", "Check its permissions."
        ) from None
    except (ValueError, RecursionError) as error:
        raise BadValue(f"not a JSON document: {error}", "Remove it.") from None
    schema = found.get("schema") if isinstance(found, dict) else None
    if not isinstance(schema, str) or not schema.startswith(_REPORT):
        raise BadValue("not a report of MrTuner", "Remove it.")
    if not isinstance(found.get("proof"), dict) or not isinstance(found.get("tuning"), dict):
        raise BadValue("nothing was compared", "Remove it.")
    return dict(found)


def _moment(text: str) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def without_inline_style(page: str, address: str) -> ReportPage:
    """Return a page of `mrtuner.present` in a form that the viewer's policy allows.

    Its style sheet becomes a file at `address`; the inline styles of SVG elements become the
    equivalent attributes.
    """
    style = "\n".join(_STYLE.findall(page))
    link = f'<link rel="stylesheet" href="{escape(address)}">'
    linked = _STYLE.sub(lambda _: link, _POLICY.sub("", page, count=1), count=1)
    return ReportPage(html=_TAG.sub(_as_attributes, linked), style=style)


def _as_attributes(tag: re.Match[str]) -> str:
    return _DECLARATIONS.sub(_attributes, tag[0])


def _attributes(found: re.Match[str]) -> str:
    pairs = (one.partition(":") for one in found[1].split(";") if one.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, _, value in pairs)
