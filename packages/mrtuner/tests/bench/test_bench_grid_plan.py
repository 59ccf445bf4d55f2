"""Plans: what is read, what is refused, in which order it runs."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from bench_grids import a_plan, restored
from mrtuner.bench.plan.cells import blocks, cells, seconds_expected, space_needed
from mrtuner.bench.plan.model import GridCell, Script, Variant, Workload
from mrtuner.bench.plan.toml import plan, read_plan, template_text
from mrtuner.bench.server.sites import settings_text
from mrtuner.documents import as_builtins
from mrtuner.errors import BadValue, UsageError
from mrtuner.units import MiB
from servers import ROOT

SMALLEST = """
[[workload]]
builtin = "tpcb"
[[variant]]
name = "a"
[[variant]]
name = "b"
"""


def parsed(text: str, base: Path = Path()) -> object:
    return plan(tomllib.loads(text), base)


def test_the_template_is_a_plan() -> None:
    made = plan(tomllib.loads(template_text()), Path())
    assert made.names == ("default", "larger")
    assert made.delta == 0.03
    assert made.warmup_seconds == 15


def test_files_are_read_beside_the_plan(tmp_path: Path) -> None:
    (tmp_path / "read.sql").write_text("SELECT 1;")
    (tmp_path / "b.conf").write_text("work_mem = 8MB\n")
    (tmp_path / "plan.toml").write_text(
        'delta = "5%"\nrates = ["", "70%"]\n'
        '[[workload]]\nname = "w"\nscripts = [{file = "read.sql", weight = 3}]\n'
        '[[variant]]\nname = "a"\n[[variant]]\nname = "b"\nfile = "b.conf"\nmemory = "2GB"\n'
    )
    made = read_plan(tmp_path / "plan.toml")
    assert made.workloads[0].scripts == (Script(name="read.sql", text="SELECT 1;", weight=3),)
    assert made.variants[1].conf == "work_mem = 8MB\n"
    assert made.variants[1].memory == 2048 * MiB
    assert made.delta == 0.05
    assert made.rates == ("", "70%")


def test_a_plan_survives_json() -> None:
    made = a_plan(rates=("", "50%"), warmup=3)
    assert restored(made) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("scale = [1]" + SMALLEST, "unknown key 'scale' in the plan, did you mean 'scales'"),
        ('scales = "1"' + SMALLEST, "scales: expected `array`, got `str`"),
        ("scales = [0]" + SMALLEST, "scale 0 is below 1"),
        ("scales = [1, 1]" + SMALLEST, "scales contains 1 twice"),
        ("scales = []" + SMALLEST, "scales is empty"),
        ("scales = [true]" + SMALLEST, "scales[0]: expected `int`, got `bool`"),
        ('rates = ["fast"]' + SMALLEST, "'fast' is not a rate"),
        ('rates = ["70%"]' + SMALLEST, "needs a known capacity"),
        ('rates = ["", "120%"]' + SMALLEST, "is not possible"),
        ('delta = "much"' + SMALLEST, "is not a share"),
        ("blocks = 0" + SMALLEST, "blocks 0 is below 1"),
        ("threads = 0" + SMALLEST, "threads 0 is below 1"),
        (
            SMALLEST + "setings = {}",
            "unknown key 'setings' in [[variant]] 2, did you mean 'settings'",
        ),
        (SMALLEST + "settings = {port = 1}", "cannot set port"),
        (SMALLEST + 'start = "x"', "needs both start and dsn"),
        (SMALLEST + 'start = "x"\ndsn = "host=h"\nmemory = "1GB"', "cannot have memory"),
        (SMALLEST + 'start = "x"\ndsn = "postgresql://u:pw@h/d"', "contains a password"),
        (SMALLEST + 'connect = "pigeon"', "variant 2: connect: invalid enum value 'pigeon'"),
        (SMALLEST.replace('"b"', '"a"'), "variants contains a twice"),
        (SMALLEST.replace('"b"', '"a b"'), "is not a valid name for a variant"),
        (SMALLEST.replace('"tpcb"', '"tpcc"'), "workload 1: builtin: invalid enum value 'tpcc'"),
        (SMALLEST.replace('builtin = "tpcb"', 'name = "x"'), "needs exactly one of"),
        (SMALLEST + 'timeout = "5"', "variant 2: timeout: expected `int`, got `str`"),
        (SMALLEST.replace('builtin = "tpcb"', "scripts = 3"), "workload 1: scripts: expected"),
    ],
)
def test_what_a_plan_cannot_mean_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        parsed(text)
    assert said in caught.value.message
    assert "pw" not in caught.value.message


def test_a_word_that_is_none_of_a_few_is_answered_with_all_of_them() -> None:
    with pytest.raises(BadValue) as caught:
        parsed(SMALLEST + 'network = "bridged"')
    assert caught.value.hint == "Give one of host, bridge, published, slirp, none."


def test_one_variant_is_no_comparison() -> None:
    with pytest.raises(BadValue, match="at least two variants"):
        a_plan(variants=(Variant(name="a"),))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read .*none\.sql"):
        parsed('[[workload]]\nname = "w"\nscripts = ["none.sql"]\n', tmp_path)
    with pytest.raises(UsageError, match=r"cannot read .*none\.toml"):
        read_plan(tmp_path / "none.toml")


def test_every_combination_is_a_cell_and_shares_of_capacity_come_last() -> None:
    made = a_plan(scales=(1, 10), clients=(1, 2), rates=("70%", ""))
    found = cells(made)
    assert len(found) == 8
    assert [cell.relative for cell in found] == [False] * 4 + [True] * 4
    assert found[0] == GridCell("select", 1, 1)
    assert found[0].key == "select s1 c1"
    assert found[4].key == "select s1 c1 @70%"
    assert found[4].closed == found[0]


def test_every_block_holds_each_variant_once_and_rounds_visit_every_cell() -> None:
    made = a_plan(scales=(1, 10), clients=(1, 2), blocks=5, calibrate=2)
    order = blocks(made)
    assert len(order) == 4 * (5 + 2)
    assert all(
        sorted(block.labels) == ["a", "b"] for block in order if block.phase != "calibration"
    )
    assert all(sorted(block.labels) == ["a", "a'"] for block in order[:8])
    for start in range(0, len(order), 4):
        assert len({block.cell for block in order[start : start + 4]}) == 4
    # Neither cells nor variants keep one order.
    assert len({tuple(block.cell for block in order[n : n + 4]) for n in range(8, 28, 4)}) > 1
    assert len(Counter(block.labels for block in order[8:])) == 2


def test_the_same_seed_gives_the_same_order() -> None:
    assert blocks(a_plan(seed=5)) == blocks(a_plan(seed=5))
    many = [blocks(a_plan(seed=seed)) for seed in range(5)]
    assert any(one != many[0] for one in many)


def test_space_and_time_are_told_before() -> None:
    """Scales 1 and 10 with a working copy of the larger: 3 x 8 MiB and 21 x 15 MiB.

    Each block has two runs of 60 s, with some 3 s around each. A warm-up of 15 s takes twice that,
    since it cannot tell whether the load has settled; that of a proof ends there.
    """
    tpcb = (Workload(name="tpcb", builtin="tpcb"),)
    assert space_needed(a_plan(workloads=tpcb, scales=(1, 10))) == (3 * 8 + 21 * 15) * MiB
    assert space_needed(a_plan(scales=(1, 10))) == (2 * 8 + 11 * 15) * MiB
    ten = a_plan(blocks=10)
    assert 10 * 2 * 90 < seconds_expected(ten) < 10 * 2 * 97
    assert 10 * 2 * 75 < seconds_expected(ten, settling=False) < 10 * 2 * 82


def test_a_file_of_settings_says_nothing_of_where_to_lie() -> None:
    variant = Variant(
        name="b",
        conf="port = 5433\n  data_directory '/x'\nwork_mem = 8MB # port\nListen_Addresses = '*'\n",
        settings={"search_path": "it's"},
    )
    assert settings_text(variant) == "work_mem = 8MB # port\nsearch_path = 'it''s'\n"


#: A file of production, with the names of its archive, its primary and its log.
PRODUCTION = """\
# the passphrase is hunter2
work_mem = 8MB
archive_mode = on
Archive_Command = 'PGPASSWORD=hunter2 wal-push %p'
archive_library = 'basic_archive'
archive_cleanup_command = 'clean %r hunter2'
restore_command 'fetch %f hunter2'
recovery_end_command = 'touch hunter2'
primary_conninfo = 'host=db password=hunter2'
primary_slot_name = 'standby'
synchronous_standby_names = 'standby'
ssl_passphrase_command = 'echo hunter2'
anon.salt = 'hunter2'
log_directory = '/var/log/postgresql'
LOG_DESTINATION = csvlog
logging_collector = on
syslog_ident = 'production'
stats_temp_directory = '/run/postgresql/stats'
"""


def test_a_file_of_settings_leads_to_no_archive_primary_or_log() -> None:
    variant = Variant(name="b", conf=PRODUCTION, settings={"archive_mode": "on"})
    assert settings_text(variant) == "work_mem = 8MB\narchive_mode = 'on'\n", "as settings, meant"


def test_a_record_keeps_no_secret_of_a_file_and_starts_the_same_server() -> None:
    recorded = a_plan(variants=(Variant(name="a"), Variant(name="b", conf=PRODUCTION))).recorded
    assert "hunter2" not in json.dumps(as_builtins(recorded))
    assert settings_text(recorded.variants[1]) == "work_mem = 8MB\n"


def test_a_setting_that_may_hold_a_secret_is_refused() -> None:
    """A resumed run has only the record, where it would not be. An empty one is none."""
    with pytest.raises(BadValue, match="Archive_Command of variant b may hold a secret"):
        Variant(name="b", settings={"Archive_Command": "PGPASSWORD=hunter2 wal-push %p"})
    assert settings_text(Variant(name="b", settings={"archive_command": ""}))
    with pytest.raises(BadValue, match="variant b cannot set Port"):
        Variant(name="b", settings={"Port": "1"})


def test_a_file_of_settings_includes_no_other() -> None:
    with pytest.raises(BadValue, match="includes another"):
        settings_text(Variant(name="b", conf="include_dir = 'conf.d'\n"))


EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_is_a_plan_of_its_own_name(path: Path) -> None:
    assert read_plan(path).name == path.stem
    assert blocks(read_plan(path))


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
