"""Dockerfiles as the builder reads them; the lines themselves are compared in test_image_cache."""

from __future__ import annotations

import pytest

from mrtuner.errors import BadValue
from mrtuner_image.dockerfile import instructions, parse


def test_lines_are_joined_as_the_builder_joins_them() -> None:
    text = "\ufefffrom scratch\n  # why\nRUN one \\\n# no\n\n   two \\ \n  three\n\nCMD x\r\n"
    assert [(one.line, one.name, one.original) for one in instructions(text)] == [
        (1, "FROM", "from scratch"),
        (3, "RUN", "RUN one    two   three"),
        (9, "CMD", "CMD x"),
    ]


def test_another_escape_character_continues_lines() -> None:
    rows = list(instructions("# escape=`\nFROM scratch\nRUN dir c:\\\nRUN a `\n b\n"))
    assert [one.original for one in rows] == ["FROM scratch", "RUN dir c:\\", "RUN a  b"]


def test_flags_are_apart_from_the_words() -> None:
    [one] = instructions('COPY --chown=a:b --from="x y" ["a b", "c"] ')
    assert one.flags == ("--chown=a:b", "--from=x y")
    assert one.words == ("a b", "c")
    assert one.flag("chown") == "a:b"
    assert one.flag("chmod") is None


def test_stages_have_names_or_numbers_and_resolved_bases() -> None:
    found = parse(
        "ARG BASE=debian\nARG TAG\nFROM ${BASE}:${TAG:-12} AS build\nFROM build\nFROM scratch\n",
        {"BASE": "alpine"},
    )
    assert [(stage.name, stage.base) for stage in found.stages] == [
        ("build", "alpine:12"), ("1", "build"), ("2", "scratch"),
    ]  # fmt: skip
    named = found.stage_of("build", 1)
    assert named is not None
    assert named.index == 0
    assert found.stage_of("build", 0) is None  # no stage names itself or a later one


def test_buildkit_has_the_platform_in_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """docs.docker.com, reference/dockerfile: Automatic platform ARGs; not podman 4.3.1 (tried)."""
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    text = "FROM debian AS x_arm64\nFROM x_$TARGETARCH\n"
    assert [stage.base for stage in parse(text, builder="buildkit").stages] == ["debian", "x_arm64"]
    assert parse(text, {"TARGETARCH": "b"}, "buildkit").stages[1].base == "x_b"
    assert parse("ARG TARGETARCH=c\n" + text, builder="buildkit").stages[1].base == "x_c"
    assert parse(text).stages[1].base == "x_"
    assert parse("FROM $BUILDPLATFORM", builder="buildkit").stages[0].base == "linux/arm64"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no FROM"),
        ("# only a comment", "no FROM"),
        ("RUN x\nFROM scratch", "line 1 of the Dockerfile: RUN before the first FROM"),
        ("FROM scratch\nCOPPY a b", "line 2 of the Dockerfile: unknown instruction COPPY"),
        ("FROM scratch\nRUN cat <<EOF\nx\nEOF", "line 2 of the Dockerfile: a heredoc"),
        ("FROM scratch\nCOPY <<EOF /x\nnever closed", "line 2 of the Dockerfile: a heredoc"),
        ("FROM scratch\nCOPY --link a b", "COPY --link, which this builder does not support"),
        ("FROM scratch\nCOPY a", "takes a source and a destination"),
        ("ARG IMAGE\nFROM $IMAGE", "line 2 of the Dockerfile: \\$IMAGE is empty"),
        ("FROM debian:$TAG", "line 1 of the Dockerfile: debian:\\$TAG is debian:, which names no"),
        ("FROM $REGISTRY/app", "line 1 of the Dockerfile: \\$REGISTRY/app is /app, which names no"),
        ("FROM ${X?}", "cannot resolve"),
        ("FROM a b", "FROM takes an image"),
    ],
)
def test_what_the_builder_refuses_is_refused_with_the_line(text: str, said: str) -> None:
    with pytest.raises(BadValue, match=said) as caught:
        parse(text)
    assert caught.value.hint
