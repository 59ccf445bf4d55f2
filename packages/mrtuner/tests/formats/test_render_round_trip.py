"""Every format gives back what was put in."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mrtuner.errors import BadValue, UsageError
from mrtuner.formats import NAMES, Line, parse, render

#: These leave out what a platform does not accept; test_render_managed.py tests them.
MANAGED = ("cloudsql", "cloudsql-terraform", "azure", "azure-terraform")
ANYTHING = [name for name in NAMES if name not in MANAGED]

NASTY = (
    "", " ", " both ends ", "'", "''", '"', "\\", "\\'", "a'b\\c\"d", "a, b", "a,b", "#1", "a#b",
    "a = b", "-1", "-0.5", "+3", "0.9", "1e-05", "1e5", "0x10", "on", "off", "yes", "true",
    "null", "~", "4GB", "1.5GB", "%m [%p] %q%u@%d ", "a|b", "a\\|b", "\\", "|", "`", "``x``",
    "*x*", "<b>", "&amp;", "&#124;", "$user", "$$", "${X}", "{{ .Values.x }}", "}}", "{x: y}",
    "- a", "? a", "!x", "12:30:45", "2026-01-01", "ünï", "日本", "🐘", "\u00a0", "\ufeff", "a:b",
    "x" * 300, "a: b", "--", "/* */", ";", "E'x'", "_a_b_", "[x](y)", "%",
)  # fmt: skip

text = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=40)
word = st.from_regex(r"[a-z_][a-z0-9_$]{0,12}", fullmatch=True)
# the prefix avoids parameters that an operator sets itself
name = st.one_of(
    word.map("x_{}".format),
    st.tuples(word, word).map(lambda parts: f"x_{parts[0]}.{parts[1]}"),
    st.sampled_from(["work_mem", "random_page_cost", "pg_stat_statements.max", "jit"]),
)
value = st.one_of(text, st.sampled_from(NASTY))
reason = st.one_of(text, st.just("two\nlines\x00 | and {{ more }} *stars*"))


def line(name: str, value: str, *, quoted: bool = False, comment: str = "why") -> Line:
    return Line(name=name, value=value, quoted=quoted, comment=comment, restart=False)


lines = st.lists(
    st.builds(
        Line, name=name, value=value, quoted=st.booleans(), comment=reason, restart=st.booleans()
    ),
    max_size=8,
    unique_by=lambda each: each.name,
)


@pytest.mark.parametrize("format", ANYTHING)
@given(lines=lines, title=text)
@settings(deadline=None, max_examples=60)
def test_a_rendering_reads_back_as_the_same_values(
    format: str, lines: list[Line], title: str
) -> None:
    expected = {each.name: each.value for each in lines}
    assert parse(format, render(format, lines, title=title)) == expected


@pytest.mark.parametrize("format", ANYTHING)
def test_every_nasty_value_survives_quoted_or_not(format: str) -> None:
    for quoted in (False, True):
        given = [line(f"x{at}.y", each, quoted=quoted) for at, each in enumerate(NASTY[:45])]
        rest = [line(f"x{at}.y", each, quoted=quoted) for at, each in enumerate(NASTY[45:])]
        for part in (given, rest):
            assert parse(format, render(format, part)) == {each.name: each.value for each in part}


@pytest.mark.parametrize("format", [name for name in ANYTHING if name != "zalando"])
def test_a_list_of_libraries_survives(format: str) -> None:
    given = [line("shared_preload_libraries", 'pg_stat_statements, "odd,name", $libdir/x')]
    assert parse(format, render(format, given)) == {given[0].name: given[0].value}


@pytest.mark.parametrize("format", NAMES)
def test_reason_and_title_can_be_read(format: str) -> None:
    given = [line("work_mem", "4MB", comment="a quarter of what is left")]
    rendering = render(format, given, title="16 GB, 4 CPUs, PostgreSQL 18")
    assert "a quarter of what is left" in rendering
    assert "16 GB, 4 CPUs, PostgreSQL 18" in rendering
    assert rendering.endswith("\n")


@pytest.mark.parametrize("format", NAMES)
def test_a_value_with_a_line_break_is_refused(format: str) -> None:
    with pytest.raises(BadValue, match="log_line_prefix holds a line break"):
        render(format, [line("log_line_prefix", "a\nwork_mem = 1TB")])


def test_a_name_that_is_no_parameter_is_refused() -> None:
    with pytest.raises(BadValue, match="is not the name of a parameter"):
        render("sql", [line("work_mem = '1'; DROP TABLE x; --", "1")])


def test_the_same_parameter_twice_is_refused_whatever_its_case() -> None:
    with pytest.raises(BadValue, match="set twice"):
        render("conf", [line("work_mem", "1MB"), line("Work_Mem", "2MB")])


def test_an_unknown_format_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError) as error:
        render("toml", [])
    assert error.value.message == "unknown format 'toml'"
    assert "conf, crunchy, docker, helm, markdown" in (error.value.hint or "")


@pytest.mark.parametrize("format", NAMES)
def test_text_that_is_no_rendering_is_refused(format: str) -> None:
    with pytest.raises(BadValue):
        parse(format, "what is this: [")
