"""Images written by hand: layers as archives, and OCI directories of them."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"


def entry(name: str, content: str = "", **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    """An entry of a layer: a file, unless `type` says otherwise."""
    found = tarfile.TarInfo(name)
    found.mode = 0o755 if more.get("type") == tarfile.DIRTYPE else 0o644
    for attribute, value in more.items():
        setattr(found, attribute, value)
    found.size = len(content)
    return found, content.encode()


def directory(name: str, **more: Any) -> tuple[tarfile.TarInfo, bytes]:
    """A directory of a layer."""
    return entry(name, type=tarfile.DIRTYPE, **more)


def layer(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    """A layer as it is pushed: a gzipped archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for found, content in entries:
            archive.addfile(found, io.BytesIO(content))
    return gzip.compress(out.getvalue(), mtime=0)


def digest(content: bytes) -> str:
    """The digest by which a registry names a blob."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def write_blob(root: Path, content: bytes) -> dict[str, Any]:
    """Write a blob; return its digest and size as a manifest lists them."""
    path = root / "blobs" / "sha256" / digest(content).partition(":")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return {"digest": digest(content), "size": len(content)}


def write_image(
    root: Path,
    layers: Sequence[bytes],
    configuration: Mapping[str, Any] | None = None,
    platform: Mapping[str, str] | None = None,
    media_type: str = LAYER,
) -> dict[str, Any]:
    """Write an OCI directory with one image; return its row in the index."""
    config = json.dumps(configuration or {}).encode()
    manifest = {
        "schemaVersion": 2, "mediaType": MANIFEST, "config": write_blob(root, config),
        "layers": [{**write_blob(root, one), "mediaType": media_type} for one in layers],
    }  # fmt: skip
    row = {**write_blob(root, json.dumps(manifest).encode()), "mediaType": MANIFEST}
    row |= {"platform": dict(platform)} if platform else {}
    write_index(root, [row])
    return row


def write_index(root: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the index of an OCI directory."""
    told = {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(rows)}
    (root / "index.json").write_text(json.dumps(told))
