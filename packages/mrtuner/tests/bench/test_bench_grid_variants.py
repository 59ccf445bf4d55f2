"""Variants: what a plan may say of them, what cannot run here, data on overlays, commands."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench_grids import a_plan, restored
from machine import debian_server, needs
from mrtuner.bench.engine.grid import run_grid
from mrtuner.bench.plan.model import Variant
from mrtuner.bench.plan.toml import plan, read_plan
from mrtuner.bench.record.document import MeasuredRun
from mrtuner.bench.server import layers, sites
from mrtuner.bench.server.variant import Commanded, Embedded, possible
from mrtuner.errors import BadValue, ConnectError, MissingPart
from mrtuner.postgres.connect import connect
from servers import ROOT, binaries, sql

pytestmark = pytest.mark.timed

SMALLEST = '[[workload]]\nbuiltin = "tpcb"\n[[variant]]\nname = "a"\n[[variant]]\nname = "b"\n'
overlays = needs("root", "overlay file systems")


def parsed(text: str, base: Path = Path("/plans")) -> object:
    return plan(tomllib.loads(SMALLEST + text), base)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('network = "wifi"', "variant 2: network: invalid enum value 'wifi'"),
        ('network = "bridge"\nconnect = "socket"', "network bridge but connects by socket"),
        ('network = "none"\nconnect = "tcp"', "network none but connects by tcp"),
        ('image = "minimal"', "has an image but no network"),
        ('storage = "tape"', "variant 2: storage: invalid enum value 'tape'"),
        ('start = "x"\ndsn = "host=h"\nnetwork = "host"', "cannot have network"),
        ('start = "x"\ndsn = "host=h"\nstorage = "overlay"', "cannot have storage"),
        ('netwrok = "host"', "unknown key 'netwrok' in [[variant]] 2, did you mean 'network'"),
        ('timeout = "long"', "variant 2: timeout: expected `int`, got `str`"),
    ],
)
def test_what_a_variant_cannot_mean_is_refused(text: str, said: str) -> None:
    with pytest.raises(BadValue) as caught:
        parsed(text)
    assert said in caught.value.message


def test_containers_in_a_plan() -> None:
    made = plan(
        tomllib.loads(
            SMALLEST + 'network = "bridge"\nimage = "./root"\nstorage = "layer"\n'
            '[[variant]]\nname = "c"\nnetwork = "host"\nimage = "docker.io/library/debian:13"\n'
            '[[variant]]\nname = "d"\nstart = "./serve now"\ndsn = "host=h"\n'
        ),
        Path("/plans"),
    )
    b, c, d = made.variants[1:]
    assert (b.network, b.connect, b.image, b.storage) == ("bridge", "tcp", "/plans/root", "layer")
    assert (c.connect, c.image) == ("socket", "docker.io/library/debian:13")
    assert d.start == "/plans/serve now"
    assert restored(made) == made


def test_the_table_of_2014_is_an_example() -> None:
    """Bare, and three kinds of container with two base images, each with fsync on and off."""
    made = read_plan(ROOT / "examples/containers-2014.toml")
    assert (made.scales, made.clients, made.seconds) == ((1, 10, 100), (1, 2, 4, 8, 16), 60)
    assert len(made.variants) == 2 + 3 * 2 * 2
    assert {variant.connect for variant in made.variants} == {"tcp"}
    for variant in made.variants:
        assert variant.bound is variant.name.endswith("-nofsync")
        assert variant.bound is (variant.settings.get("fsync") == "off")


def test_variants_that_cannot_run_here_are_left_out_and_named() -> None:
    binaries(18)
    made = a_plan(variants=(*a_plan().variants, Variant(name="old", server_bin="/nowhere/bin")))
    left = possible(made)
    assert left.names == ("a", "b")
    assert left.skipped == {"old": "no program postgres in /nowhere/bin"}
    assert restored(left) == left


def test_a_comparison_that_is_left_without_two_is_not_run() -> None:
    binaries(18)
    gone = Variant(name="old", server_bin="/nowhere/bin")
    for variants in ((Variant(name="a"), gone), (gone, Variant(name="a"), Variant(name="b"))):
        with pytest.raises(MissingPart, match="no program postgres in /nowhere/bin"):
            possible(a_plan(variants=variants))


@needs("a user other than root")
def test_what_needs_root_is_left_out_for_others() -> None:
    binaries(18)
    wanting = (Variant(name="o", storage="overlay"), Variant(name="n", network="host"))
    left = possible(a_plan(variants=(*a_plan().variants, *wanting)))
    assert set(left.skipped) == {"o", "n"}
    assert "root" in left.skipped["n"]


def test_older_majors_get_checksums_as_18_has_them() -> None:
    """Otherwise the two would not be equally durable and could not be compared."""
    older = debian_server(15)
    if older is None or not (older / "pg_checksums").exists():
        pytest.skip("no PostgreSQL 15 of Debian's here")
    with ExitStack() as stack:
        cluster = sites.make(stack, Variant(name="v", server_bin=str(older)), None).cluster
        assert "Data page checksum version:           1" in cluster.run(
            "pg_controldata", cluster.data
        ).stdout  # fmt: skip


# Overlays


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    binaries(18)
    with ExitStack() as made:
        yield made


def mounted_on(path: Path) -> list[str]:
    """Types of the file systems mounted exactly there. Source: proc_pid_mounts(5)."""
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [line.split()[2] for line in lines if line.split()[1] == str(path)]


@overlays
def test_what_is_changed_in_a_layer_is_lost_and_the_rest_stays(stack: ExitStack) -> None:
    variant = Variant(name="v", storage="layer")
    site = sites.make(stack, variant, None)
    server = Embedded(variant, site, None)
    stack.callback(server.stop)
    server.start()
    sql(server.dsn, "CREATE TABLE t AS SELECT 1 AS n")
    with server.layered():
        assert mounted_on(site.cluster.data) == ["overlay"]
        sql(server.dsn, "UPDATE t SET n = 2")
    assert mounted_on(site.cluster.data) == []
    assert sql(server.dsn, "SELECT n FROM t") == [(1,)]


@overlays
def test_data_made_on_an_overlay_are_there_in_the_next_run_too(stack: ExitStack) -> None:
    variant = Variant(name="v", storage="overlay")
    site = sites.make(stack, variant, None)
    assert site.key != sites.key(Variant(name="w"))
    assert site.key == sites.key(Variant(name="w", storage="overlay", connect="tcp"))
    server = Embedded(variant, site, None)
    stack.callback(server.stop)
    server.start()
    sql(server.dsn, "CREATE TABLE t AS SELECT 1 AS n")
    server.stop()
    with server.layered():  # does nothing for this storage
        server.start()
        assert sql(server.dsn, "SELECT n FROM t") == [(1,)]
    assert mounted_on(site.cluster.directory.parent) == ["overlay"]


@overlays
def test_nothing_stays_mounted(tmp_path: Path) -> None:
    with layers.fresh(tmp_path) as place:
        (place / "file").write_text("data")
        assert (tmp_path / "upper/file").read_text() == "data"
    assert mounted_on(place) == []
    assert not (tmp_path / "upper").exists()


@pytest.fixture(scope="module")
def touched(tmp_path_factory: pytest.TempPathFactory) -> list[MeasuredRun]:
    binaries(18)
    arms = (Variant(name="volume"), Variant(name="layer", storage="layer"))
    made = a_plan(
        variants=arms, scales=(6,), clients=(1,), blocks=1, seconds=1, warmup=0, seed=1,
        steal_limit=1.0, foreign_limit=1.0,
    )  # fmt: skip
    return list(run_grid(made, tmp_path_factory.mktemp("layer") / "run").samples)


@overlays
def test_the_first_touch_of_a_layer_copies_the_file_and_is_told_apart(
    touched: list[MeasuredRun],
) -> None:
    """pgbench_accounts has 77 MB at scale 6: a lookup in it takes a few ms, a copy far more."""
    known = {one.label: one.first_touch or 0.0 for one in touched}
    assert known["layer"] > 3 * known["volume"] > 0


# Commands


def test_a_server_that_does_not_answer_in_time_is_given_up(tmp_path: Path) -> None:
    """The command keeps running and prints something, but starts no server."""
    variant = Variant(
        name="mute", start="sh -c 'echo still loading; exec sleep 600'",
        dsn=f"host={tmp_path} user=postgres", timeout=1,
    )  # fmt: skip
    server = Commanded(variant)
    with pytest.raises(ConnectError, match="did not start a server within 1 s: still loading"):
        server.start()
    assert server.process.process is None


def test_a_command_that_is_not_there_is_said() -> None:
    server = Commanded(Variant(name="none", start="/nowhere/serve", dsn="host=/nowhere"))
    with pytest.raises(ConnectError, match="variant none cannot be run: No such file"):
        server.start()
    server.stop()


def test_a_command_that_hands_over_to_a_server_may_end(stack: ExitStack) -> None:
    """As pg_ctl does: it ends with 0, the server stays, and the stop command stops it."""
    cluster = sites.make(stack, Variant(name="x"), None).cluster
    (cluster.data / "mrtuner-variant.conf").touch()
    user = cluster.user
    ids = [f"--reuid={user.uid}", f"--regid={user.gid}", "--clear-groups"] if user else []
    prefix = shlex.join(["setpriv", *ids]) if user else "env"
    control = f"{prefix} {cluster.binaries.program('pg_ctl')} -D {cluster.data}"
    log = cluster.directory / "log"
    server = Commanded(
        Variant(
            name="handed", start=f"{control} -l {log} start", stop=f"{control} stop",
            dsn=cluster.dsn(),
        )
    )  # fmt: skip
    for _ in range(2):
        server.start()
        with connect(server.dsn) as session:
            assert session.execute("SELECT 1").fetchone() == (1,)
        server.stop()
        assert not cluster.running()
