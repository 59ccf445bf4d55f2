"""Helm: values for Bitnami's PostgreSQL chart and charts built like it.

The chart appends ``primary.extendedConfiguration`` to its configuration, after running it through
Helm's templates, and has a separate value for the libraries to load. Source: the chart's README,
"PostgreSQL Primary parameters" and "PostgreSQL common parameters".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mrtuner.formats import conf, manifest
from mrtuner.formats.line import Format, Line

_LIBRARIES: Final = "shared_preload_libraries"
_LIBRARIES_VALUE: Final = "postgresqlSharedPreloadLibraries"
_BRACES: Final = "{{"
_BRACES_IN_TEMPLATE: Final = '{{ "{{" }}'


def write(lines: Sequence[Line], title: str = "") -> str:
    """Return a values file."""
    preload = [line for line in lines if line.name == _LIBRARIES]
    plain = [line for line in lines if line.name != _LIBRARIES]
    notes = [
        title,
        "Apply: helm upgrade RELEASE CHART --reuse-values --values FILE",
        "With replicas, give readReplicas.extendedConfiguration the same text: a replica with "
        "fewer connections or workers than its primary does not start.",
        *(f"{_LIBRARIES}: {line.reason}. The list replaces the chart's." for line in preload),
    ]
    document: dict[str, object] = {}
    for line in preload:
        document[_LIBRARIES_VALUE] = manifest.Text(line.value)
    body = conf.settings(plain).replace(_BRACES, _BRACES_IN_TEMPLATE)
    document["primary"] = {"extendedConfiguration": manifest.LiteralBlock(body)}
    return manifest.manifest(document, (), notes)


def read(text: str) -> dict[str, str]:
    """Return the extended configuration, with the libraries as a parameter again."""
    values = manifest.load(text)
    body = str(manifest.load(text, ("primary",)).get("extendedConfiguration", ""))
    found = conf.read(body.replace(_BRACES_IN_TEMPLATE, _BRACES))
    libraries = values.get(_LIBRARIES_VALUE)
    return found if libraries is None else found | {_LIBRARIES: str(libraries)}


FORMAT = Format(
    name="helm",
    summary="Helm: values for Bitnami's chart (primary.extendedConfiguration)",
    write=write,
    read=read,
    container=True,
)
