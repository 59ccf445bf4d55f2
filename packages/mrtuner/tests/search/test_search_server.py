"""A search on a real server: settings take effect, races run in pairs, winners are confirmed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from signal import SIGINT, SIGKILL, Signals

import pytest
from click.testing import CliRunner
from conftest import NewCluster
from search_surface import all_binds, new_search

from bench_grids import a_plan, a_record, a_sample
from mrtuner.bench.engine.events import Event, Stage
from mrtuner.bench.load.pgbench import find_pgbench
from mrtuner.bench.plan.model import GridCell, Script, Workload
from mrtuner.bench.record.archive import load as bench_record
from mrtuner.cli import main
from mrtuner.errors import ConnectError, MrTunerError
from mrtuner.facts import Fact
from mrtuner.host import probe
from mrtuner.search import server
from mrtuner.search.model import Costs, Schedule, SearchedSetting
from mrtuner.search.procedure import Procedure
from mrtuner.search.race import Raced
from mrtuner.search.record import load, save
from mrtuner.search.server import Measurements, OwnServer, disturbed, known, own_server
from mrtuner.search.space import choose, dimensions
from mrtuner.stats.comparison import Verdict
from mrtuner.tuning import changes, tune
from mrtuner.units import Bytes, GiB
from servers import binaries, sql

pytestmark = pytest.mark.timed
#: As short as a search can be: a run is a second, a trial one pair.
TINY = Schedule(
    budget=20, window=1, warmup=0, pairs=1, search=0.5, confirmation=0.25, ablation=0.15,
    reduced=0.1,
)  # fmt: skip


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier searches found must not reach a test."""
    monkeypatch.setenv("MRTUNER_STATE_DIR", str(tmp_path / "state"))


@pytest.fixture
def own() -> Iterator[OwnServer]:
    programs = binaries(18)
    with own_server(programs.directory, memory=None, iops=None) as made:
        yield made


def measurements(own: OwnServer, kept: Path, workload: Workload) -> Measurements:
    """Races at scale 1 with two clients, in runs of a second."""
    return Measurements(
        own=(own,), known=own.known(), workload=workload,
        cell=GridCell(workload.name, 1, 2), threads=1, schedule=TINY, seed=1,
        program=find_pgbench(binaries(18)), host=None, kept=kept, progress=lambda _event: None,
    )  # fmt: skip


def shown(own: OwnServer, name: str) -> str:
    return str(sql(own.dsn, f"SHOW {name}")[0][0])


def test_initdbs_defaults_are_beyond_the_memory_of_a_small_machine(own: OwnServer) -> None:
    """A hundred sessions of 4 MB work_mem and 8 MB besides, and shared_buffers, exceed 1 GB.

    What the temporary server runs with before the advice is nobody's choice, and no excuse.
    """
    tuning = tune(own.dsn, memory="1GB", connections=32, storage="ssd")
    advice = {one.name: one.value for one in tuning.changes}
    assert int(advice["max_connections"]) < 40
    assert changes.fits(tuning, advice)(advice)
    assert not changes.fits(tuning, advice)({})
    assert changes.fits(tuning)({}), "but on a server that runs with them they may stay"


def test_settings_take_effect_by_reload_and_by_restart_and_go_away_again(own: OwnServer) -> None:
    began = own.site.cluster.pid
    own.put({"work_mem": "7MB"}, restart=False)
    assert (shown(own, "work_mem"), own.site.cluster.pid) == ("7MB", began)
    own.put({"shared_buffers": "64MB"}, restart=True)
    assert (shown(own, "shared_buffers"), shown(own, "work_mem")) == ("64MB", "4MB")
    assert own.site.cluster.pid != began
    own.put({}, restart=True)
    assert shown(own, "shared_buffers") == "128MB"


def test_settings_that_the_server_refuses_are_an_error_and_the_next_ones_work(
    own: OwnServer,
) -> None:
    with pytest.raises(MrTunerError, match="did not take effect: work_mem"):
        own.put({"work_mem": "1kB"}, restart=False)
    with pytest.raises(ConnectError, match="does not start"):
        own.put({"shared_buffers": "100TB"}, restart=True)
    own.put({"work_mem": "5MB"}, restart=False)
    assert shown(own, "work_mem") == "5MB"


def test_every_end_of_every_range_takes_effect_on_every_major(
    each_major: int, new_cluster: NewCluster
) -> None:
    cluster = new_cluster(each_major)
    there = known(cluster.dsn(), each_major)
    searched = list[SearchedSetting]()
    for mechanism in all_binds():  # one at a time: together they are more than are searched
        searched += choose([mechanism], there, {}, ())[0]
    box = dimensions(searched, there)
    assert len(box) >= 14
    for last in (0.0, 1.0):
        ends = {
            one.name: one.text(last * ((len(one.setting.values) or 2) - 1))
            for one in box
            if one.name != "shared_buffers"  # 512MB may be more than a test's machine has
        }
        cluster.configure(ends)
        cluster.restart()
        computed = {"wal_buffers": "4MB"} if ends["wal_buffers"] == "-1" else {}
        found = {name: sql(cluster.dsn(), f"SHOW {name}")[0][0] for name in ends}
        assert found == ends | computed


def test_what_this_build_accepts_is_read_from_it(own: OwnServer) -> None:
    accepted = own.known()
    enumvals = sql(own.dsn, "SELECT enumvals FROM pg_settings WHERE name = 'wal_compression'")
    assert list(accepted.accepted["wal_compression"]) == enumvals[0][0]
    assert accepted.refuses({"wal_compression": "no such"}) == ["wal_compression"]


def test_a_search_of_seconds_from_the_advice_to_a_result(own: OwnServer, tmp_path: Path) -> None:
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    there = own.known()
    search = new_search(1)
    search.schedule, search.baselines = TINY, {}
    search.advice = {"random_page_cost": "1.1"}
    measuring = Measurements(
        own=(own,), known=there, workload=Workload(name="tpcb", builtin="tpcb"),
        cell=GridCell("tpcb", 1, 2), threads=1, schedule=TINY, seed=1, program=program, host=None,
        kept=tmp_path, progress=lambda _event: None,
    )  # fmt: skip
    measuring.warm_up(search.advice)
    assert shown(own, "random_page_cost") == "1.1"
    done = Procedure(
        search=search, measuring=measuring, server=there, fits=lambda _side: True,
        costs=lambda _side: Costs(memory=None, replay=None),
        keep=lambda now: save(now, tmp_path), tell=lambda _text: None,
    ).run()  # fmt: skip
    seen = {one.mechanism: one.value for one in done.evidence}
    assert (seen["WAL volume"] or 0) > 0, "TPC-B changes pages right after a checkpoint"
    assert seen["temporary files"] == 0
    assert done.left_out
    assert done.result is not None
    assert load(tmp_path) == done
    assert done.calibration is not None
    assert done.calibration.pairs == 3
    if done.trials:  # a machine may show nothing that binds
        assert done.confirmation is not None
        assert done.confirmation.pairs == 6
        assert (tmp_path / "confirmation" / "run.json").is_file()
        found = done.confirmation.verdict is Verdict.BETTER
        assert done.result.found is found


def test_at_a_fixed_rate_a_pair_is_the_speed_of_its_p99(own: OwnServer, tmp_path: Path) -> None:
    """A transaction sleeps for random_page_cost / 100 s: 40 ms, then 20 ms, and no less.

    A p99 needs 1,000 transactions: half of what the rate asks for, as a busy machine falls behind.
    """
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    text = "SELECT pg_sleep(current_setting('random_page_cost')::float / 100);"
    workload = Workload(name="scripts", scripts=(Script(name="sleep", text=text),))
    measuring = Measurements(
        own=(own,), known=own.known(), workload=workload, cell=GridCell("scripts", 1, 40, "200"),
        threads=1, schedule=replace(TINY, window=10, warmup=1), seed=1, program=program, host=None,
        kept=tmp_path, progress=lambda _event: None,
    )  # fmt: skip
    raced = measuring.race({}, {"random_page_cost": "2"}, 1, lambda _raced: False, "a race")
    ((before, after),) = raced.pairs
    assert 1 < before <= 25
    assert 1 < after <= 50


def test_a_race_ends_when_it_is_enough(own: OwnServer, tmp_path: Path) -> None:
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    measuring = Measurements(
        own=(own,), known=own.known(), workload=Workload(name="select", builtin="select"),
        cell=GridCell("select", 1, 2), threads=1, schedule=TINY, seed=1, program=program,
        host=None, kept=tmp_path, progress=lambda _event: None,
    )  # fmt: skip
    seen = list[Raced]()

    def two(raced: Raced) -> bool:
        seen.append(raced)
        return len(raced.pairs) == 2

    raced = measuring.race({}, {"work_mem": "8MB"}, 9, two, "a race")
    assert [len(one.pairs) for one in seen] == [1, 2]
    assert len(raced.pairs) == 2
    assert raced.seconds > 4
    assert raced.failed == (0.0, 0.0)
    assert all(value > 0 for pair in raced.slowest for value in pair)
    assert list(tmp_path.iterdir()) == [], "the record of a trial is that of the search"


def test_settings_to_keep_and_data_too_large_are_refused_before_anything_is_filled(
    tmp_path: Path,
) -> None:
    place = tmp_path / "search"
    for arguments, message in (
        (["--keep", "wrok_mem"], "--keep names wrok_mem, which this version does not have"),
        (["--goal", "p99@20"], "a run of 20 s at 20 transactions a second is too short for a p99"),
        (["--scale", "100000000"], "the databases need "),
    ):
        done = CliRunner().invoke(
            main,
            ["search", "--embedded", "--server-bin", str(binaries(18).directory),
             "--dir", str(place), *arguments],
        )  # fmt: skip
        assert done.exit_code in {2, 4}
        assert message in done.stderr
        assert "filling" not in done.stderr
        assert not place.exists(), "the hint can be followed with the same directory"


def test_a_script_that_does_not_run_is_an_error_of_its_own_and_no_failed_trial(
    tmp_path: Path,
) -> None:
    script = tmp_path / "bad.sql"
    script.write_text("SELECT no_such_column FROM pgbench_branches;\n", encoding="utf-8")
    place = tmp_path / "search"
    done = CliRunner().invoke(
        main,
        ["search", "--embedded", "--server-bin", str(binaries(18).directory), "--scale", "1",
         "--load", str(script), "--budget", "60s", "--dir", str(place)],
    )  # fmt: skip
    assert done.exit_code == 1
    assert "no_such_column" in done.stderr
    assert not place.exists(), "the script can be mended and the same command given again"


def test_each_side_has_a_server_that_restarts_only_for_settings_of_its_own(
    own: OwnServer, tmp_path: Path
) -> None:
    """What the candidate leaves in its buffers is there when it is the best and meets the next."""
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    small, there = {"shared_buffers": "32MB"}, own.known()
    with ExitStack() as stack:
        servers = (own, own.twin(stack))
        measuring = Measurements(
            own=servers, known=there, workload=Workload(name="select", builtin="select"),
            cell=GridCell("select", 1, 2), threads=1, schedule=TINY, seed=1, program=program,
            host=None, kept=tmp_path, progress=lambda _event: None,
        )  # fmt: skip
        measuring.warm_up({})
        began = [one.site.cluster.pid for one in servers]
        raced = measuring.race({}, small, 1, lambda _raced: False, "a race")
        assert len(raced.pairs) == 1
        assert [shown(one, "shared_buffers") for one in servers] == ["128MB", "32MB"]
        first, second = (one.site.cluster.pid for one in servers)
        assert first == began[0]
        assert second != began[1]
        measuring.race(small, {"work_mem": "7MB"}, 1, lambda _raced: False, "a race")
        assert [one.site.cluster.pid for one in servers] == [first, second]
        assert [shown(one, "work_mem") for one in servers] == ["7MB", "4MB"]
        place = servers[1].site.cluster.directory
    assert not place.exists()
    own.put({}, restart=True)
    assert sql(own.site.cluster.dsn("bench"), "SELECT count(*) FROM pgbench_branches") == [(1,)]


def test_what_a_server_does_faster_is_no_gain_of_a_side(own: OwnServer, tmp_path: Path) -> None:
    """The twin takes five times as long: its side loses in three pairs, and wins in three."""
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    text = (
        "SELECT pg_sleep(CASE WHEN current_setting('data_directory') LIKE '%/twin/%' "
        "THEN 0.1 ELSE 0.02 END);"
    )
    workload = Workload(name="scripts", scripts=(Script(name="sleep", text=text),), reads=True)
    seen = list[list[str]]()
    measuring = measurements(own, tmp_path, workload)
    with ExitStack() as stack:
        servers = measuring.own = (own, own.twin(stack))
        measuring.warm_up({})

        def look(_raced: Raced) -> bool:
            seen.append([shown(one, "work_mem") for one in servers])
            return False

        raced = measuring.race({}, {"work_mem": "7MB"}, 5, look, "confirmation")
        measuring.race({}, {"work_mem": "8MB"}, 2, look, "trial 1")
        measuring.race({}, {"work_mem": "9MB"}, 1, look, "reduced")
    assert len(raced.pairs) == 6, "as many on either server"
    slower = [b < a for a, b in raced.pairs]
    assert slower == [True, True, True, False, False, False]
    assert raced.verdict not in {Verdict.BETTER, Verdict.WORSE}
    assert any("the servers of the two sides differ" in one for one in raced.cautions)
    assert seen[:6] == [["4MB", "7MB"]] * 2 + [["7MB", "4MB"]] * 4, "after the third pair"
    assert len({tuple(one) for one in seen[6:8]}) == 1, "the trials' servers stay"
    seeds = [
        {one.seed for one in bench_record(tmp_path / title).samples}
        for title in ("confirmation", "reduced")
    ]
    assert [len(one) for one in seeds] == [6, 2]
    assert not seeds[0] & seeds[1]


def test_what_others_take_of_the_machine_leaves_no_verdict(own: OwnServer, tmp_path: Path) -> None:
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    measuring = measurements(own, tmp_path, Workload(name="select", builtin="select"))
    with ExitStack() as stack:
        for _ in range(2 * (os.cpu_count() or 1)):
            busy = stack.enter_context(subprocess.Popen([sys.executable, "-c", "while True: pass"]))
            stack.callback(busy.kill)
        judged, trial = (
            measuring.race({}, {}, 1, lambda _raced: False, title)
            for title in ("confirmation", "trial 1")
        )
    words = "search while nothing else runs on this machine"
    assert any(one.startswith("CPU used by others") and words in one for one in judged.refused)
    assert judged.verdict is Verdict.UNDECIDED
    assert len(judged.pairs) == 1
    assert not any(words in one for one in trial.refused)


@pytest.mark.parametrize(
    ("shares", "steal", "said"),
    [
        ((0.1, 0.5), 0.0, ["CPU used by others 30.0 %, limit 20 %"]),
        ((0.1, 0.3), 0.0, []),
        ((None, None), 0.3, ["steal 30.0 %, limit 20 %"]),
        ((0.3, None), None, ["CPU used by others 30.0 %, limit 20 %"]),
    ],
)
def test_the_share_of_others_is_the_mean_over_the_runs_that_count(
    shares: tuple[float | None, ...], steal: float | None, said: list[str]
) -> None:
    plan = a_plan()
    cell = GridCell("select", 10, 4)
    record = a_record([
        *(a_sample(cell, 1, "ab"[place], 1, foreign=share, steal=steal)
          for place, share in enumerate(shares)),
        a_sample(cell, 1, "a", 1, foreign=0.9, steal=0.9, rejected="interrupted"),
    ], plan)  # fmt: skip
    assert [one.partition(":")[0] for one in disturbed(record)] == said


def test_wal_compression_is_told_with_a_caution(own: OwnServer, tmp_path: Path) -> None:
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    measuring = measurements(own, tmp_path, Workload(name="tpcb", builtin="tpcb"))
    with_it, without = (
        measuring.race({}, side, 1, lambda _raced: False, "trial 1").cautions
        for side in ({"wal_compression": "pglz"}, {"work_mem": "7MB"})
    )
    assert sum("wal_compression changes less" in one for one in with_it) == 1
    assert not any("wal_compression" in one for one in without)


def test_a_load_that_hangs_fails_soon_and_its_sessions_end(
    own: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 7MB, a transaction takes ten minutes: a run of a second may last for four more."""
    monkeypatch.setattr(server, "_LEAST_OVERTIME_S", 1)
    program = find_pgbench(binaries(18))
    own.fill(1, program)
    text = "SELECT pg_sleep(CASE current_setting('work_mem') WHEN '7MB' THEN 600 ELSE 0.01 END);"
    workload = Workload(name="scripts", scripts=(Script(name="sleep", text=text),))
    told = list[Event]()
    measuring = replace(measurements(own, tmp_path, workload), progress=told.append)
    measuring.warm_up({})
    measuring.race({}, {}, 1, lambda _raced: False, "the advice")  # shows how long one takes
    with pytest.raises(MrTunerError, match="pgbench did not end within 5 s"):
        measuring.race({}, {"work_mem": "7MB"}, 1, lambda _raced: False, "trial 1")
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"
    assert sql(own.dsn, asleep) == [(2,)]
    told.clear()
    raced = measuring.race({}, {"work_mem": "8MB"}, 1, lambda _raced: False, "trial 2")
    assert len(raced.pairs) == 1
    assert sql(own.dsn, asleep) == [(0,)]
    assert (told[0].stage, told[0].text) == (Stage.WARMING_UP, "1 s or more"), "its caches are cold"


@pytest.mark.parametrize(
    ("limit", "memory", "twin"),
    [(GiB, 2 * GiB, True), (GiB, 2 * GiB - 1, False), (None, 64 * GiB, False), (GiB, None, False)],
)
def test_each_side_has_a_server_if_memory_is_limited_and_holds_two(
    own: OwnServer, limit: int | None, memory: int | None, twin: bool
) -> None:
    own.limits = replace(own.limits, memory=limit)
    known = None if memory is None else Fact(Bytes(memory), "a test")
    assert own.may_have_twin(replace(probe(), memory=known)) is twin


@pytest.mark.slow
def test_a_search_is_interrupted_then_killed_and_goes_on_to_its_result(tmp_path: Path) -> None:
    place, program = tmp_path / "search", Path(sys.executable).parent / "mrtuner"
    programs = ["--server-bin", str(binaries(18).directory)]
    begin = ["--embedded", "--scale", "1", "--clients", "2", "--budget", "60s", "--seed", "1"]
    first = interrupted([program, "search", *begin, "--dir", place, *programs], "trial 1", SIGINT)
    assert f"to go on: mrtuner search --resume {place}" in first
    assert "Traceback" not in first
    (one,) = load(place).trials
    interrupted([program, "search", "--resume", place, *programs], "trial 2", SIGKILL)
    assert load(place).trials[0] == one
    done = subprocess.run(
        [program, "search", "--resume", place, *programs, "--json"], capture_output=True,
        text=True, check=True, timeout=200,
    )  # fmt: skip
    found = json.loads(done.stdout)
    assert [one["origin"] for one in found["trials"][:2]] == ["default", "pgtune"]
    assert found["confirmation"]["pairs"] >= 6
    assert found["result"]["found"] is (found["confirmation"]["verdict"] == "better")
    waits = [one for one in found["evidence"] if one["mechanism"] == "WAL flushes"]
    assert waits[0]["value"] is not None


def interrupted(command: list[str | Path], at: str, how: Signals) -> str:
    """Run a command until it says something, send it a signal, and return what it said."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        said = ""
        for line in child.stderr:
            said += line
            if at in line:
                child.send_signal(how)
                break
        said += child.stderr.read()
    return said
