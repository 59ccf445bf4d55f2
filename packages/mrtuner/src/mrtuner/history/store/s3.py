"""The lake on S3: a recorder publishes its files, and readers fetch those that they need.

    s3://BUCKET/PREFIX/VIEW/date=YYYY-MM-DD/NUMBER-WRITER.parquet     as below DIR/lake
    s3://BUCKET/PREFIX/manifests/WRITER.json                          the files of one writer
    s3://BUCKET/PREFIX/texts/WRITER.json.gz                           texts of its statements

Each writer lists its own files, so several share a lake without a lock. A list replaces only the
one that was read before it (If-Match), so recording into both a store and its copy is detected
before it does harm.
"""

from __future__ import annotations

import base64
import gzip
import json
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from mrtuner.aws.calls import body_of, call, pages
from mrtuner.aws.errors import AwsError
from mrtuner.errors import BadValue, MrTunerError, Refused, UsageError
from mrtuner.files import replace as write_file
from mrtuner.history.moments import timestamp
from mrtuner.history.recording.source import Source, parse
from mrtuner.history.store import compaction, layout, opening
from mrtuner.history.store.parquet import File, checksum
from mrtuner.history.store.writer import Writer
from mrtuner.postgres.sql import OLDEST

#: Of a manifest.
FORMAT: Final = 1
_URL: Final = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<prefix>.*))?")
#: An object that is no longer listed is deleted after this time [s]: it may still be fetched.
_GRACE: Final = 24 * 3600
_CHANGED: Final = frozenset({"PreconditionFailed", "ConditionalRequestConflict"})
#: Error codes for an object that does not exist.
ABSENT: Final = frozenset({"NoSuchKey", "404"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a lake is stored."""

    bucket: str
    prefix: str  # empty, or with a slash at its end

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")

    def key(self, path: str) -> dict[str, str]:
        """Bucket and key of an object, as the API takes them."""
        return {"Bucket": self.bucket, "Key": self.prefix + path}


def place_of(url: str) -> Place:
    """Read ``s3://BUCKET/PREFIX``.

    Raises:
        BadValue: it is not such an address.
    """
    found = _URL.fullmatch(url)
    if found is None:
        raise BadValue(f"{url!r} is not an S3 address", "Write s3://BUCKET/PREFIX.")
    prefix = (found["prefix"] or "").strip("/")
    return Place(found["bucket"], f"{prefix}/" if prefix else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What one writer has in the lake."""

    writer: str
    sources: Mapping[str, str]  # declarations by name
    files: tuple[File, ...]
    texts: int = 0  # statements whose texts are there
    retired: Mapping[str, int] = field(default_factory=dict)  # paths, since when [s since 1970]
    format: int = FORMAT


# Publishing.


def publish(directory: Path, place: Place, client: Any) -> int:
    """Upload the files of a store that are not there yet, then the list of all; return how many.

    A recorder may be running. If it is killed in between, the files are uploaded again; a file is
    not read until it is listed.

    Raises:
        UsageError: there is no store.
        Refused: another process publishes as the same writer.
        AwsError: S3 refuses them or does not answer.
    """
    with closing(opening.for_reading(directory)) as db:
        (writer,) = db.execute("SELECT id FROM writer").fetchone()
        files = tuple(opening.listed(db))
        sources = {one.name: one.declaration for one in opening.sources(db) if one.declaration}
        before, tag = _listed(client, place, writer)
        texts = _new_texts(db, before.texts)
    have = {file.path for file in before.files}
    new = [file for file in files if file.path not in have]
    lake = directory / layout.LAKE
    for file in new:
        body = (lake / file.path).read_bytes()
        digest = base64.b64encode(bytes.fromhex(file.sha256)).decode()
        call(client, "put_object", **place.key(file.path), Body=body, ChecksumSHA256=digest)
    if texts:
        body = gzip.compress(json.dumps(texts, ensure_ascii=False).encode(), mtime=0)
        call(client, "put_object", **place.key(_texts(writer)), Body=body)
    kept = {file.path for file in files}
    now = int(time.time())
    retired = {path: since for path, since in before.retired.items() if now - since < _GRACE}
    retired |= dict.fromkeys(have - kept, now)
    manifest = Manifest(
        writer=writer, sources=sources, files=files, texts=len(texts) or before.texts,
        retired=retired,
    )  # fmt: skip
    _replace(client, place, manifest, tag)
    for path in before.retired.keys() - retired.keys():
        call(client, "delete_object", **place.key(path))
    return len(new)


def _new_texts(db: sqlite3.Connection, published: int) -> dict[int, str]:
    """Return all texts of statements if there are more than were published, else none.

    Texts are only ever added, so it is enough to count them, which reads none.
    """
    count = db.execute("SELECT count(*) FROM statement_text").fetchone()[0]
    if count == published:
        return {}
    return dict(db.execute("SELECT query_id, text FROM statement_text ORDER BY 1"))


def _replace(client: Any, place: Place, manifest: Manifest, tag: str | None) -> None:
    """Put a manifest in the place of the one that was read; `tag` is None where there was none."""
    condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
    body = json.dumps(asdict(manifest)).encode()
    try:
        call(client, "put_object", **place.key(_path(manifest.writer)), Body=body, **condition)
    except AwsError as error:
        if error.code not in _CHANGED:
            raise
        raise Refused(
            f"another process publishes to {place} as the same writer",
            "Record into a directory of its own: this one is a copy or has been copied.",
        ) from None


def _listed(client: Any, place: Place, writer: str) -> tuple[Manifest, str | None]:
    """Return the manifest of a writer, empty if there is none, and its ETag."""
    try:
        answer = call(client, "get_object", **place.key(_path(writer)))
    except AwsError as error:
        if error.code not in ABSENT:
            raise
        return Manifest(writer=writer, sources={}, files=()), None
    return _read(body_of(client, answer), place), str(answer["ETag"])


def _read(body: bytes, place: Place) -> Manifest:
    try:
        found = json.loads(body)
        if found["format"] > FORMAT:
            raise Refused(
                f"{place} was written by a newer MrTuner (format {found['format']}; this one knows "
                f"{FORMAT})",
                "Update MrTuner: pip install --upgrade mrtuner.",
            )
        files = tuple(File(**one) for one in found["files"])
        return Manifest(**(found | {"files": files}))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UsageError(
            f"a manifest in {place} is damaged", "Delete it: its writer publishes it again."
        ) from None


def _path(writer: str) -> str:
    return f"manifests/{writer}.json"


def _texts(writer: str) -> str:
    return f"texts/{writer}.json.gz"


# Fetching.


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What was fetched for a copy of a lake."""

    writers: int
    files: int  # that were not there before
    bytes: int


def fetch(place: Place, directory: Path, client: Any, *, since: int = 0) -> Fetched:
    """Make a directory a copy of a lake, with files that end at `since` [µs since 1970] or later.

    Files that are already there stay; those that the lake no longer has are removed.

    Raises:
        UsageError: there is no lake, or the directory is not a copy of it.
        Refused: the lake is of a newer version, or another process uses the directory.
        AwsError: S3 does not answer.
    """
    manifests = _manifests(client, place)
    with Writer(directory, _sources(manifests), copy_of=str(place)) as writer:
        have = {file.path for file in writer.files()}
        new = [
            file for one in manifests for file in one.files
            if file.path not in have and file.last >= since
        ]  # fmt: skip
        for file in new:
            _download(client, place, directory / layout.LAKE, file)
        _adopt(client, place, writer, manifests, new)
        compaction.sweep(writer, timestamp())
    return Fetched(writers=len(manifests), files=len(new), bytes=sum(file.bytes for file in new))


def read_lists(place: Place, directory: Path, client: Any) -> None:
    """Fetch the list of a lake's files into a directory, and the texts, but none of the files.

    Raises as `fetch` does.
    """
    manifests = _manifests(client, place)
    with Writer(directory, _sources(manifests), copy_of=str(place)) as writer:
        have = {file.path for file in writer.files()}
        new = [file for one in manifests for file in one.files if file.path not in have]
        _adopt(client, place, writer, manifests, new)


def tags(place: Place, client: Any) -> dict[str, str]:
    """Return the ETags of a lake's manifests by key; they change with the manifests."""
    return {one["Key"]: one["ETag"] for one in _list_manifests(client, place)}


def _adopt(
    client: Any, place: Place, writer: Writer, manifests: list[Manifest], new: list[File]
) -> None:
    """Add new files to the list, remove those that no manifest has, and add the texts."""
    listed = {file.path for one in manifests for file in one.files}
    compaction.adopt(writer, new, [file for file in writer.files() if file.path not in listed])
    for one in manifests:
        _fetch_texts(client, place, writer, one)


def _list_manifests(client: Any, place: Place) -> Iterator[Mapping[str, Any]]:
    return pages(
        client, "list_objects_v2", "Contents", Bucket=place.bucket,
        Prefix=f"{place.prefix}manifests/",
    )  # fmt: skip


def _manifests(client: Any, place: Place) -> list[Manifest]:
    found = []
    for one in _list_manifests(client, place):
        answer = call(client, "get_object", Bucket=place.bucket, Key=one["Key"])
        found.append(_read(body_of(client, answer), place))
    if not found:
        raise UsageError(f"there is no history at {place}", "Publish it: mrtuner record --publish.")
    return found


def _sources(manifests: list[Manifest]) -> list[Source]:
    """Return every source that a writer declares; if they differ, the last declaration."""
    texts = {name: text for one in manifests for name, text in one.sources.items()}
    return [parse(name, {OLDEST: text}) for name, text in sorted(texts.items())]


def _download(client: Any, place: Place, lake: Path, file: File) -> None:
    """Write a file, complete or not at all; raise MrTunerError if it is not the one listed."""
    target = (lake / file.path).resolve()
    if not target.is_relative_to(lake.resolve()):
        raise UsageError(f"a manifest in {place} names a file outside the lake", "Do not trust it.")
    answer = call(client, "get_object", **place.key(file.path))
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_file(target, body_of(client, answer))
    if checksum(target) != file.sha256:
        target.unlink()
        raise MrTunerError(
            f"{file.path} in {place} is damaged: its checksum does not match",
            "Restore it from its writer's directory, or remove it from its manifest.",
        )


def _fetch_texts(client: Any, place: Place, writer: Writer, of: Manifest) -> None:
    if not of.texts:
        return
    answer = call(client, "get_object", **place.key(_texts(of.writer)))
    texts = json.loads(gzip.decompress(body_of(client, answer)))
    with writer.transaction():
        writer.db.executemany("INSERT OR IGNORE INTO statement_text VALUES (?, ?)", texts.items())
