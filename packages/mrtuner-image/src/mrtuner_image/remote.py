"""Manifests and blobs of a registry, read over HTTP. Nothing is written to it.

Requests are anonymous; if the registry wants a token, one for reading is fetched as the
distribution specification describes. HTTPS, except on the loopback interface. Source: distribution
2.8, docs/spec/api.md and docs/spec/auth/token.md.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any, Final, cast
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import OpenerDirector, ProxyHandler, Request, build_opener

from mrtuner.errors import MrTunerError, UsageError

_TIMEOUT_S: Final = 60.0
_HUB: Final = "docker.io"
_HUB_HOST: Final = "registry-1.docker.io"
_ACCEPTED: Final = (
    "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, "
    "application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.docker.distribution.manifest.v2+json"
)
#: Source: distribution, reference/regexp.go.
_NAME: Final = re.compile(
    r"(?P<host>[\w.-]+(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)/(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_PART: Final = re.compile(r'(\w+)="([^"]*)"')


@dataclass(slots=True)
class Remote:
    """An image in a registry: ``registry.example/team/app:1``."""

    text: str
    host: str = ""
    name: str = ""
    reference: str = ""  # a tag or a digest
    _token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        match = _NAME.fullmatch(self.text)
        if match is None:
            raise UsageError(
                f"{self.text} is not an image name",
                "Name its registry and tag: registry.example/app:1.",
            )
        self.host = _HUB_HOST if match["host"] == _HUB else match["host"]
        self.name = match["name"]
        if match["host"] == _HUB and "/" not in self.name:
            self.name = f"library/{self.name}"
        self.reference = match["digest"] or match["tag"] or "latest"

    @property
    def _opener(self) -> OpenerDirector:
        """An opener that uses no proxy for the loopback interface."""
        here = [ProxyHandler({})] if _scheme(self.host) == "http" else []
        return build_opener(*here)

    def manifest(self, reference: str) -> tuple[Mapping[str, Any], str]:
        """Return a manifest or an index by tag or digest, and its media type."""
        from mrtuner_image.stored import document

        digest = reference if reference.startswith("sha256:") else None
        stream, kind = self._get(f"manifests/{reference}")
        return document(self.text, stream, digest), kind

    def blob(self, digest: str) -> IO[bytes]:
        return self._get(f"blobs/{digest}")[0]

    def _get(self, what: str) -> tuple[IO[bytes], str]:
        url = f"{_scheme(self.host)}://{self.host}/v2/{self.name}/{what}"
        try:
            return self._ask(url)
        except HTTPError as error:
            if error.code != 401 or self._token is not None:
                raise self._failed(error) from error
            wanted = error.headers.get("WWW-Authenticate", "")
            error.close()
        except (URLError, OSError) as error:
            raise self._failed(error) from error
        self._token = self._fetched_token(wanted)
        try:
            return self._ask(url)
        except (URLError, OSError) as error:
            raise self._failed(error) from error

    def _ask(self, url: str) -> tuple[IO[bytes], str]:
        request = Request(url, headers={"Accept": _ACCEPTED})  # noqa: S310 - the scheme is ours
        if self._token is not None:
            # Not sent to the host to which a blob may be redirected.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        answer = self._opener.open(request, timeout=_TIMEOUT_S)
        return cast("IO[bytes]", answer), answer.headers.get_content_type()

    def _fetched_token(self, wanted: str) -> str:
        parts = dict(_PART.findall(wanted))
        realm = parts.get("realm", "")
        if not wanted.lower().startswith("bearer ") or urlsplit(realm).scheme != _scheme(self.host):
            raise MrTunerError(
                f"the registry {self.host} requires a user and a password",
                "Copy the image into a directory: skopeo copy docker://IMAGE oci:DIR.",
            )
        asked = {"scope": f"repository:{self.name}:pull"}
        if "service" in parts:
            asked["service"] = parts["service"]
        try:
            url = f"{realm}{'&' if '?' in realm else '?'}{urlencode(asked)}"
            with self._opener.open(url, timeout=_TIMEOUT_S) as answer:  # its scheme was compared
                told = json.loads(answer.read(1 << 20))
        except (URLError, OSError, ValueError) as error:
            raise self._failed(error) from error
        token = told.get("token") or told.get("access_token") if isinstance(told, dict) else None
        return str(token or "")

    def _failed(self, error: Exception) -> MrTunerError:
        if isinstance(error, HTTPError):
            error.close()
        if isinstance(error, HTTPError) and error.code == 404:
            return UsageError(
                f"there is no image {self.text}", "Correct its name or tag, or push it first."
            )
        why = f"HTTP {error.code}" if isinstance(error, HTTPError) else str(error)
        return MrTunerError(
            f"cannot read {self.text}: {why}",
            "Copy the image into a directory: skopeo copy docker://IMAGE oci:DIR.",
        )


def _scheme(host: str) -> str:
    name = host.rpartition(":")[0] if re.search(r":\d+$", host) else host
    return "http" if name in {"localhost", "[::1]"} or name.startswith("127.") else "https"
