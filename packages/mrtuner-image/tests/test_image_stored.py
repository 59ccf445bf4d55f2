"""Images read from OCI directories, archives and registries."""

from __future__ import annotations

import json
import tarfile
import threading
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from image_stored import INDEX, MANIFEST, entry, layer, write_image, write_index
from mrtuner.errors import BadValue, MissingPart, MrTunerError, UsageError
from mrtuner_image.stored import read_image

ONE, TWO = layer(entry("x", "1" * 3000)), layer(entry("y", "2"))
CONFIGURATION = {"config": {"Cmd": ["x"]}}


def a_layout(root: Path) -> Path:
    root.mkdir(exist_ok=True)
    write_image(root, [ONE, TWO], CONFIGURATION)
    return root


def archived(root: Path, path: Path) -> Path:
    with tarfile.open(path, "w") as archive:
        for below in sorted(root.rglob("*")):
            archive.add(below, str(below.relative_to(root)), recursive=False)
    return path


def test_a_directory_tells_layers_and_sizes(tmp_path: Path) -> None:
    image = read_image(str(a_layout(tmp_path)))
    assert [one.size for one in image.layers] == [len(ONE), len(TWO)]
    assert image.size == len(ONE) + len(TWO) + len(json.dumps(CONFIGURATION))
    # By hand: a header, 3,000 bytes in six blocks, and tarfile's end: records of 20 blocks.
    assert image.uncompressed(image.layers[0]) == 10240


def test_an_archive_tells_the_same(tmp_path: Path) -> None:
    root = a_layout(tmp_path / "oci")
    image = read_image(str(archived(root, tmp_path / "image.tar")))
    assert [one.size for one in image.layers] == [len(ONE), len(TWO)]
    assert image.uncompressed(image.layers[1]) == 10240


def test_a_platform_is_chosen_from_an_index(tmp_path: Path) -> None:
    rows = [
        write_image(tmp_path, [one], {"n": one.hex()}, {"os": "linux", "architecture": name})
        for one, name in ((ONE, "amd64"), (TWO, "arm64"))
    ]
    write_index(
        tmp_path, [*rows, {**rows[0], "platform": {"os": "unknown", "architecture": "unknown"}}]
    )
    (layer_of,) = read_image(str(tmp_path), "linux/arm64").layers
    assert layer_of.size == len(TWO)
    with pytest.raises(UsageError, match="has no image for linux/s390x") as refused:
        read_image(str(tmp_path), "linux/s390x")
    assert refused.value.hint == "There are: linux/amd64, linux/arm64."
    with pytest.raises(BadValue, match="is not system/architecture"):
        read_image(str(tmp_path), "arm64")


def test_a_changed_blob_is_found(tmp_path: Path) -> None:
    image = read_image(str(a_layout(tmp_path)))
    (blob,) = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes() == ONE]
    blob.write_bytes(layer(entry("x", "another")))
    with pytest.raises(MrTunerError, match="has another digest"):
        image.uncompressed(image.layers[0])


@pytest.mark.parametrize("which", ["manifest", "configuration"])
def test_a_changed_document_is_found(tmp_path: Path, which: str) -> None:
    row = write_image(tmp_path, [ONE], CONFIGURATION)
    manifest = tmp_path / "blobs/sha256" / row["digest"].partition(":")[2]
    config = json.loads(manifest.read_bytes())["config"]["digest"].partition(":")[2]
    path = manifest if which == "manifest" else tmp_path / "blobs/sha256" / config
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(MrTunerError, match="has another digest"):
        read_image(str(tmp_path))


def test_a_bomb_is_counted_piece_by_piece(tmp_path: Path) -> None:
    """100 MB of zeros in a layer of 100 kB: neither its archive nor its file is ever in memory."""
    size = 100_000_000
    bomb = layer(entry("x", "0" * size))
    assert len(bomb) < 200_000
    write_image(tmp_path, [bomb])
    image = read_image(str(tmp_path))
    tracemalloc.start()
    try:
        assert size < image.uncompressed(image.layers[0]) < size + 20_480
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert used < size / 5


@pytest.mark.parametrize("damage", ["truncate", "remove", "json", "escape", "empty"])
def test_a_damaged_directory_is_refused(tmp_path: Path, damage: str) -> None:
    row = write_image(tmp_path, [ONE], CONFIGURATION)
    index = tmp_path / "index.json"
    manifest = tmp_path / "blobs" / "sha256" / row["digest"].partition(":")[2]
    if damage == "truncate":
        manifest.write_bytes(manifest.read_bytes()[:20])
    elif damage == "remove":
        manifest.unlink()
    elif damage == "json":
        index.write_text("[" * 100000)
    elif damage == "escape":
        write_index(tmp_path, [{**row, "digest": "sha256:../../index.json"}])
    else:
        write_index(tmp_path, [])
    with pytest.raises(MrTunerError):
        read_image(str(tmp_path))


def test_zstd_is_not_guessed(tmp_path: Path) -> None:
    write_image(tmp_path, [ONE], media_type="application/vnd.oci.image.layer.v1.tar+zstd")
    image = read_image(str(tmp_path))
    with pytest.raises(MissingPart, match="compressed with zstd"):
        image.uncompressed(image.layers[0])


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not an OCI image"):
        read_image(str(tmp_path))
    (tmp_path / "x").write_text("x")
    with pytest.raises(UsageError, match="is not an archive"):
        read_image(str(tmp_path / "x"))
    with pytest.raises(UsageError, match="there is no OCI directory or archive nowhere"):
        read_image("nowhere")
    with pytest.raises(UsageError, match="is not an image name"):
        read_image("registry.example/Upper:1")


class Handler(BaseHTTPRequestHandler):
    """A registry that issues tokens, and redirects requests for blobs."""

    layout: Path
    asked: list[tuple[str, str | None]]

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        token = self.headers.get("Authorization")
        self.asked.append((self.path, token))
        host = f"http://{self.headers['Host']}"
        if self.path.startswith("/token?"):
            self._send(200, json.dumps({"token": "t"}).encode(), "application/json")
        elif self.path.startswith("/elsewhere/"):
            blob = self.layout / "blobs/sha256" / self.path.rpartition(":")[2]
            self._send(200, blob.read_bytes(), "application/octet-stream")
        elif token != "Bearer t":
            told = f'Bearer realm="{host}/token",service="s"'
            self._send(401, b"", "text/plain", ("WWW-Authenticate", told))
        elif self.path == "/v2/team/app/manifests/1":
            self._send(200, (self.layout / "index.json").read_bytes(), INDEX)
        elif self.path.startswith("/v2/team/app/manifests/sha256:"):
            blob = self.layout / "blobs/sha256" / self.path.rpartition(":")[2]
            self._send(200, blob.read_bytes(), MANIFEST)
        elif self.path.startswith("/v2/team/app/blobs/"):
            away = f"{host}/elsewhere/{self.path.rpartition('/')[2]}"
            self._send(307, b"", "text/plain", ("Location", away))
        else:
            self._send(404, b"{}", "application/json")

    def _send(self, code: int, body: bytes, kind: str, *headers: tuple[str, str]) -> None:
        self.send_response(code)
        for name, value in (("Content-Type", kind), ("Content-Length", str(len(body))), *headers):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def a_registry(layout: Path) -> Iterator[tuple[str, Any]]:
    handler: Any = type("Registry", (Handler,), {"layout": layout, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", handler
        finally:
            server.shutdown()
            thread.join()


def test_a_registry_is_read_with_a_token(tmp_path: Path) -> None:
    with a_registry(a_layout(tmp_path)) as (address, seen):
        image = read_image(f"{address}/team/app:1")
        assert [one.size for one in image.layers] == [len(ONE), len(TWO)]
        assert image.uncompressed(image.layers[0]) == 10240
    (token,) = [path for path, _ in seen.asked if path.startswith("/token")]
    assert token == "/token?scope=repository%3Ateam%2Fapp%3Apull&service=s"
    sent_away = [token for path, token in seen.asked if path.startswith("/elsewhere/")]
    assert sent_away
    assert set(sent_away) == {None}  # the token is for the registry alone


def test_an_image_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with (
        a_registry(a_layout(tmp_path)) as (address, _),
        pytest.raises(UsageError, match="there is no image"),
    ):
        read_image(f"{address}/team/other:1")
    with pytest.raises(MrTunerError, match="cannot read"):
        read_image(f"{address}/team/app:1")
