"""Loads from other programs: any command, and sysbench."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench_grids import a_plan, restored
from machine import needs
from mrtuner.bench.engine.grid import run_grid
from mrtuner.bench.load.drivers import (
    CommandDriver,
    SysbenchDriver,
    prepare,
    read_sysbench,
    throughput,
)
from mrtuner.bench.load.programs import CommandWorkload, Sysbench, filled
from mrtuner.bench.plan.cells import space_needed
from mrtuner.bench.plan.model import GridCell, Plan, Script, Variant, Workload
from mrtuner.bench.plan.toml import plan
from mrtuner.bench.verdict.judge import verdicts
from mrtuner.bench.verdict.summary import summaries
from mrtuner.errors import BadValue, MissingPart, MrTunerError
from mrtuner.postgres.cluster import Cluster
from mrtuner.units import MiB
from servers import binaries, running, sql

pytestmark = pytest.mark.timed

VARIANTS = '[[variant]]\nname = "a"\n[[variant]]\nname = "b"\n'
#: What sysbench 1.0.20 printed against PostgreSQL 18, with most of its histogram left out.
PRINTED = """\
[ 1s ] thds: 2 tps: 39449.16 qps: 39449.16 (r/w/o: 39449.16/0.00/0.00) lat (ms,99%): 0.21 err/s: 0.00 reconn/s: 0.00
[ 1s ] queue length: 0, concurrency: 0
[ 2s ] thds: 2 tps: 48421.76 qps: 48421.76 (r/w/o: 48421.76/0.00/0.00) lat (ms,99%): 0.10 err/s: 0.00 reconn/s: 0.00
Latency histogram (values are in milliseconds)
       value  ------------- distribution ------------- count
       0.015 |                                         50
       0.015 |**                                       290
       0.037 |**************************************** 5531
       5.570 |                                         1
      13.460 |                                         2
 
SQL statistics:
    transactions:                        5874 (2937.17 per sec.)
    queries:                             135724 (45163.17 per sec.)
    ignored errors:                      3      (0.00 per sec.)

Latency (ms):
         avg:                                    0.04
         max:                                   13.57
"""  # noqa: E501, W293


def parsed(text: str, base: Path = Path("/plans")) -> Plan:
    return plan(tomllib.loads(text + VARIANTS), base)


def tiny(*workloads: Workload, **other: object) -> Plan:
    known = {
        "workloads": workloads, "scales": (1,), "clients": (1,), "blocks": 1, "seconds": 1,
        "warmup": 0, "steal_limit": 1.0, "foreign_limit": 1.0,
    }  # fmt: skip
    return a_plan(**known | other)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running(listen=True, password="kept to itself") as made:
        yield made


def written(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(0o755)
    return str(path)


def command(run: str, **other: object) -> Workload:
    known = {"throughput": r"tps: ([\d.]+)"} | other
    return Workload(name="own", command=CommandWorkload(run=run, **known))  # type: ignore[arg-type]


# Plans


def test_a_command_of_a_plan_is_looked_for_beside_it() -> None:
    made = parsed(
        '[[workload]]\nname = "w"\ncommand = "./load.sh {seconds} \'a b\'"\n'
        'throughput_key = "result.tps"\nprepare = "make-tables {scale}"\nper_scale = "20MB"\n'
    )
    assert made.workloads[0].command == CommandWorkload(
        run="/plans/load.sh {seconds} 'a b'", throughput_key="result.tps",
        prepare="make-tables {scale}", per_scale=20 * MiB,
    )  # fmt: skip
    assert restored(made) == made


def test_sysbench_takes_its_own_scripts_by_name_and_others_by_path() -> None:
    made = parsed(
        '[[workload]]\nname = "w"\nsysbench = "oltp_read_write"\noptions = { tables = 4 }\n'
        '[[workload]]\nname = "v"\nsysbench = "./tpcc.lua"\noptions = { scale = "{scale}" }\n'
    )
    assert made.workloads[0].sysbench == Sysbench(script="oltp_read_write", options={"tables": "4"})
    assert made.workloads[1].sysbench is not None
    assert made.workloads[1].sysbench.script == "/plans/tpcc.lua"
    assert restored(made) == made


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('command = "x"', "needs either throughput or throughput_key"),
        ('command = "x"\nthroughput = "tps"', "needs one group"),
        ('command = "x"\nthroughput = "(tps"', "is not a regular expression"),
        ('command = "x {second}"\nthroughput_key = "a"', "did you mean {seconds}?"),
        ('command = "x"\nthroughput_key = "a"\nprepare = "y"', "prepare needs per_scale"),
        ('throughput = "(x)"', "throughput is only for a command"),
        ("options = { tables = 1 }", "options are only for sysbench"),
        ('sysbench = "x"\noptions = { tables = "many" }', "tables = 'many' is not a whole number"),
        ('sysbench = "x"\noptions = { pgsql-password = "pw" }', "is not allowed in a plan"),
        ('sysbench = "x"\nprotocol = "extended"', "does not support the extended protocol"),
        ('sysbench = "x"\nbuiltin = "tpcb"', "needs exactly one of"),
    ],
)
def test_what_a_workload_cannot_mean_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        parsed(f'[[workload]]\nname = "w"\n{text}\n')
    assert said in caught.value.message
    assert "pw" not in caught.value.message


def test_a_command_without_latencies_is_not_run_at_given_rates() -> None:
    with pytest.raises(BadValue, match="own cannot be run at given rates"):
        tiny(command("x"), rates=("", "50%"))


def test_braces_that_are_filled() -> None:
    assert filled("{clients} of {clients}, {host}", {"clients": 3}) == "3 of 3, {host}"


def test_space_counts_what_other_programs_fill() -> None:
    """pgbench's tables at scale 1 beside them, 8 + 15 MiB; 256 bytes a row; a working copy."""
    oltp = Workload(name="w", sysbench=Sysbench(script="oltp_read_only"))
    assert space_needed(tiny(oltp, scales=(10,))) == 2 * (23 * MiB + 1_000_000 * 256)
    own = command("x", prepare="y", per_scale=7 * MiB)
    assert space_needed(tiny(own, scales=(1, 2))) == (23 + 7 + 2 * (23 + 14)) * MiB


# What they print


def test_throughput_is_the_last_match() -> None:
    wanted = CommandWorkload(run="x", throughput=r"^tps: ([\d.]+)")
    assert throughput(wanted, "tps: 1\nnot tps: 9\ntps: 2.5\n") == 2.5


@pytest.mark.parametrize(
    ("printed", "said"),
    [
        ("nothing", "printed no JSON"),
        ('{"sum": {}}', "no throughput at 'sum.0.tps'"),
        ('{"sum": [{"tps": "fast"}]}', "no throughput at 'sum.0.tps'"),
        ('{"sum": [{"tps": 0}]}', "printed a throughput of 0"),
        ('{"sum": [{"tps": NaN}]}', "printed a throughput of nan"),
    ],
)
def test_output_without_a_throughput_is_no_result(printed: str, said: str) -> None:
    with pytest.raises(MrTunerError) as caught:
        throughput(CommandWorkload(run="x", throughput_key="sum.0.tps"), printed)
    assert said in caught.value.message


def test_sysbench_is_read_with_its_histogram_and_its_seconds() -> None:
    """340 of 15 µs, 5,531 of 37, one of 5,570; the last step's two are the maximum, 13.57 ms."""
    run, log = read_sysbench(PRINTED, wall=2.5, cpu=1.0)
    assert (run.transactions, run.failed, run.tps) == (5874, 3, 2937.17)
    assert run.per_second == (39449, 48422)
    assert log.times.counts == ((15, 340), (37, 5531), (5570, 1), (13600, 2))
    assert log.times.percentile(0.5) == 37


def test_sysbench_that_did_nothing_is_no_result() -> None:
    with pytest.raises(MrTunerError, match="completed no transaction"):
        read_sysbench(PRINTED.replace("5874", "0"), wall=1, cpu=1)
    with pytest.raises(MrTunerError, match="printed no transactions"):
        read_sysbench("", wall=1, cpu=1)


# On a real server


def test_a_command_gets_the_server_and_no_password_on_its_command_line(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The program prints its arguments and reaches the server through its environment alone."""
    program = written(
        tmp_path / "load",
        "import os, sys, psycopg\n"
        "assert 'kept' not in ' '.join(sys.argv), 'password on the command line'\n"
        "assert os.environ['PGPASSWORD'] == 'kept to itself'\n"
        "psycopg.connect('').execute('SELECT 1')\n"
        "print(' '.join(sys.argv[1:]), 'tps: 5')\n",
    )
    wanted = CommandWorkload(
        run=f"{program} {{seconds}} {{clients}} {{scale}} {{host}} {{database}} {{dsn}}",
        throughput=r"^3 4 7 127\.0\.0\.1 postgres .*dbname=postgres.* tps: (\d)$",
    )
    driver = CommandDriver(wanted, GridCell("own", 7, 4), 2)
    dsn = f"{cluster.dsn(tcp=True)} password='kept to itself'"
    run, log = driver.run(dsn, 3, 1)
    assert (run.tps, run.transactions, run.per_second) == (5.0, 15, ())
    assert log.times.total == 0


def test_a_command_that_fails_is_quoted(cluster: Cluster) -> None:
    driver = CommandDriver(
        CommandWorkload(
            run="sh -c 'echo first; echo ERROR: no such luck >&2; exit 3'", throughput="(x)"
        ),
        GridCell("own", 1, 1), 1,
    )  # fmt: skip
    with pytest.raises(MrTunerError, match="sh failed: ERROR: no such luck"):
        driver.run(cluster.dsn(), 1, 1)


def test_a_program_that_is_not_there_is_found_before_a_server_runs(tmp_path: Path) -> None:
    binaries(18)
    with pytest.raises(MissingPart, match="program /nowhere/load not found"):
        run_grid(tiny(command("/nowhere/load")), tmp_path / "run")
    lua = Workload(name="w", sysbench=Sysbench(script="/nowhere/tpcc.lua"))
    with pytest.raises(MrTunerError, match=r"(script|program) \S+ not found"):
        run_grid(tiny(lua), tmp_path / "again")


def test_a_mistake_in_a_backslash_command_is_found_without_a_server(tmp_path: Path) -> None:
    binaries(18)
    script = Script(name="w.sql", text="\\sett x 1\nSELECT 1;\n")
    with pytest.raises(MrTunerError, match='invalid command in command "sett"'):
        run_grid(tiny(Workload(name="w", scripts=(script,))), tmp_path / "run")
    assert not (tmp_path / "run/run.json").exists()  # not even a record was begun


def test_a_grid_of_a_command_is_measured_and_judged(tmp_path: Path) -> None:
    """The program creates its table once; each run finds it empty, in a fresh copy."""
    binaries(18)
    program = written(
        tmp_path / "load",
        "import sys, psycopg\n"
        "with psycopg.connect('') as conn:\n"
        "    if sys.argv[1] == 'make':\n"
        "        conn.execute('CREATE TABLE mine (n int)')\n"
        "    else:\n"
        "        (count,) = conn.execute('SELECT count(*) FROM mine').fetchone()\n"
        "        conn.execute('INSERT INTO mine VALUES (1)')\n"
        "        print(f'tps: {100 + count}')\n",
    )
    own = command(f"{program} run", prepare=f"{program} make", per_scale=1)
    record = run_grid(tiny(own, blocks=2), tmp_path / "run")
    assert [side.tps for side in summaries(record)] == [100, 100]
    assert [one.first_touch for one in record.samples] == [None] * 4
    assert len(verdicts(record)) == 1


def test_a_server_that_dies_in_a_cell_costs_that_run_and_the_rest_goes_on(tmp_path: Path) -> None:
    """The load kills the server of b, which is reached over TCP; a goes on undisturbed."""
    binaries(18)
    program = written(
        tmp_path / "load",
        "import os, signal, sys, psycopg\n"
        "with psycopg.connect('') as conn:\n"
        "    (data,) = conn.execute('SHOW data_directory').fetchone()\n"
        "if '.' in sys.argv[1]:\n"
        "    os.kill(int(open(data + '/postmaster.pid').readline()), signal.SIGKILL)\n"
        "    sys.exit('ERROR: the server is gone')\n"
        "print('tps: 100')\n",
    )
    arms = (Variant(name="a"), Variant(name="b", connect="tcp"))
    record = run_grid(tiny(command(f"{program} {{host}}"), variants=arms), tmp_path / "run")
    assert record.sealed
    assert {one.label for one in record.failures} == {"b"}, record.failures
    assert "the server is gone" in record.failures[0].reason
    assert [one.label for one in record.samples] == ["a", "a"]  # it was tried twice


@needs("sysbench")
def test_a_grid_of_sysbench_is_measured_with_latencies(tmp_path: Path) -> None:
    binaries(18)
    oltp = Workload(name="oltp", sysbench=Sysbench(script="oltp_read_write"))
    record = run_grid(tiny(oltp, rates=("", "30"), clients=(2,)), tmp_path / "run")
    assert not record.failures
    full, paced = summaries(record)[0], summaries(record)[2]
    assert full.percentiles["p50"] is not None
    assert full.tps > paced.tps
    assert 15 < paced.tps < 60


@needs("sysbench")
def test_sysbench_fills_its_tables_by_scale_over_tcp_too(cluster: Cluster) -> None:
    oltp = Workload(
        name="oltp",
        sysbench=Sysbench(
            script="oltp_point_select", options={"tables": "2", "table_size": "{scale}00"}
        ),
    )
    prepare(oltp, f"{cluster.dsn(tcp=True)} password='kept to itself'", 3)
    assert sql(cluster.dsn(), "SELECT count(*) FROM sbtest2") == [(300,)]


@needs("sysbench")
def test_a_script_that_sysbench_does_not_know_is_said_in_its_words(cluster: Cluster) -> None:
    with pytest.raises(MrTunerError, match="sysbench failed: FATAL: Cannot find benchmark"):
        prepare(Workload(name="w", sysbench=Sysbench(script="tpcx")), cluster.dsn(), 1)


@needs("sysbench")
def test_a_script_of_ones_own_for_sysbench_finds_what_lies_beside_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "beside.lua").write_text('statement = "SELECT count(*) FROM mine"\n')
    (tmp_path / "own.lua").write_text(
        'require("beside")\n'
        "function thread_init()\n  connection = sysbench.sql.driver():connect()\nend\n"
        "function event()\n  connection:query(statement)\nend\n"
        "function fill()\n"
        '  sysbench.sql.driver():connect():query("CREATE TABLE mine ()")\n'
        "end\n"
        "sysbench.cmdline.commands = { prepare = { fill } }\n"
    )
    wanted = Sysbench(script=str(tmp_path / "own.lua"))
    prepare(Workload(name="own", sysbench=wanted), cluster.dsn(), 1)
    run, log = SysbenchDriver(wanted, GridCell("own", 1, 2), None, simple=True).run(
        cluster.dsn(), 1, seed=1
    )
    assert run.transactions == log.times.total > 0


def test_a_mistake_in_sql_is_found_before_the_other_servers_are_started(tmp_path: Path) -> None:
    """The second server would not even start, but its error is not the one reported."""
    binaries(18)
    script = Script(name="w.sql", text="SELEKT 1;\n")
    arms = (Variant(name="a"), Variant(name="b", conf="work_mem = much\n"))
    with pytest.raises(MrTunerError, match='syntax error at or near "SELEKT"'):
        run_grid(tiny(Workload(name="w", scripts=(script,)), variants=arms), tmp_path / "run")
