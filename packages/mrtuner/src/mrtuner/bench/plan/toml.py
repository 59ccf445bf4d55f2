"""Read a plan that a person wrote in TOML; unknown keys are errors."""

from __future__ import annotations

import shlex
import tomllib
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from mrtuner.bench.load.programs import Command, Sysbench
from mrtuner.bench.plan.model import APART, Plan, Script, Variant, Workload
from mrtuner.errors import BadValue, UsageError
from mrtuner.units import parse_bytes, parse_share

_PLAN: Final = frozenset({
    "name", "scales", "clients", "rates", "blocks", "calibrate", "seconds", "warmup", "threads",
    "latency_limit", "delta", "steal_limit", "foreign_limit", "seed", "workload", "variant",
})  # fmt: skip
_COMMAND: Final[tuple[str, ...]] = (
    "command", "throughput", "throughput_key", "prepare", "per_scale",
)  # fmt: skip
_WORKLOAD: Final = frozenset({
    "name", "builtin", "scripts", "protocol", "setup", "sysbench", "options", "judged_by",
    *_COMMAND,
})  # fmt: skip
_SCRIPT: Final = frozenset({"file", "weight"})
_VARIANT: Final = frozenset({
    "name", "settings", "file", "server_bin", "connect", "memory", "iops", "disk", "start", "stop",
    "dsn", "bound", "collect", "network", "image", "storage", "timeout",
})  # fmt: skip
_SHARES: Final = ("delta", "steal_limit", "foreign_limit")

#: What `mrtuner bench init` writes.
TEMPLATE: Final = """\
# A plan for `mrtuner bench run`. Every combination of workload, scale, clients and rate is a cell;
# in every cell all variants are compared, in randomised blocks.
name = "example"

scales = [10]           # pgbench's: about 15 MB each, and as much again for the working copy
clients = [4]           # sessions at once
rates = [""]            # "" as fast as possible; "500" a second; "70%" of what the cell can do

blocks = 10             # each holds every variant once; at least 6 for a reliable verdict
calibrate = 0           # further blocks that measure the first variant twice
seconds = 60            # longer than checkpoint_timeout to judge settings of writing
# warmup = 15           # dropped before every run; left out: 15 s, or a tenth of `seconds`
delta = "3%"            # the smallest difference that matters
steal_limit = "1%"      # a block is repeated once when others took more CPU than this
foreign_limit = "3%"
# threads = 2           # of pgbench
# latency_limit = 1000  # ms; at a given rate, transactions later than this are skipped and counted
# seed = 42             # repeats the order of an earlier run

[[workload]]
name = "tpcb"
builtin = "tpcb"        # tpcb, simple-update, select
protocol = "prepared"   # prepared, extended, simple
# judged_by = "longest pause"   # in which no transaction ended; left out: throughput

# [[workload]]
# name = "ours"
# setup = "tables.sql"  # tables of our own, made once
# scripts = [{ file = "read.sql", weight = 9 }, { file = "write.sql" }]

# [[workload]]
# name = "oltp"
# sysbench = "oltp_read_write"            # one of its scripts, or "./tpcc.lua" by its path
# options = { tables = 4, table_size = 250000 }   # left out: a table of 100,000 rows a scale

# [[workload]]
# name = "batch"                          # any program that runs for a given time
# command = "./batch --seconds {seconds} --clients {clients} --database {dsn}"
# throughput = 'per second: ([0-9.]+)'    # or throughput_key = "result.tps", if it prints JSON
# prepare = "./batch --fill {scale} --database {dsn}"
# per_scale = "20MB"                      # of disk that prepare's tables take

[[variant]]             # the first is the one to beat
name = "default"

[[variant]]
name = "larger"
settings = { shared_buffers = "512MB", max_wal_size = "4GB" }
# file = "postgresql.conf"                  # settings from a file
# server_bin = "/usr/lib/postgresql/17/bin" # another major
# connect = "tcp"                           # 127.0.0.1 instead of the socket
# network = "bridge"                        # in a container: host, bridge, published, slirp, none
# image = "minimal"                         # its files: host, minimal, a directory, an image's name
# storage = "layer"                         # volume; overlay: made on one; layer: below a fresh one
# memory = "2GB"                            # as small as an instance (Linux, root)
# iops = 3000
# disk = "20GB"
# start = "./my-server.sh"                  # any server: a command that stays while it runs
# dsn = "host=127.0.0.1 port=6432 user=postgres dbname=postgres"
# timeout = 300                             # seconds until it has to answer
# bound = true                              # risks data: shows at most how much, never advice
# collect = false                           # without collectors, to see what they cost
"""


def read_plan(path: Path) -> Plan:
    """The plan in a TOML file, with the texts of the files that it names (relative to it).

    Raises UsageError for a file that cannot be read, BadValue for invalid contents.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}", "Create one: mrtuner bench init > plan.toml."
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadValue(f"{path} is not TOML: {error}", "See mrtuner bench init.") from error
    return plan(document, path.parent)


def example_text(name: str) -> str:
    place = files("mrtuner.bench.plan") / "examples" / f"{name}.toml"
    return place.read_text(encoding="utf-8")


def plan(document: Mapping[str, Any], base: Path) -> Plan:
    """The plan of a parsed document; its files are relative to `base`."""
    _known(document, _PLAN, "the plan")
    given = {key: value for key, value in document.items() if key not in ("workload", "variant")}
    for key in ("scales", "clients", "rates"):
        if key in given:
            given[key] = tuple(_list(given[key], key, str if key == "rates" else int))
    for key in _SHARES:
        if key in given:
            given[key] = _share(given[key], key)
    for key in ("blocks", "calibrate", "seconds", "warmup", "threads", "latency_limit", "seed"):
        if key in given:
            _typed(given[key], int, key)
    return Plan(
        workloads=tuple(_workload(item, base) for item in _tables(document, "workload")),
        variants=tuple(_variant(item, base) for item in _tables(document, "variant")),
        **given,
    )


def _workload(item: Mapping[str, Any], base: Path) -> Workload:
    _known(item, _WORKLOAD, "a workload")
    given = dict(item)
    given["scripts"] = tuple(_script(one, base) for one in given.get("scripts", ()))
    if "setup" in given:
        given["setup"] = text_of(base / _typed(given["setup"], str, "setup"))
    given["sysbench"] = _sysbench(given, base)
    given["command"] = _command(given, base)
    given.setdefault("name", given.get("builtin", ""))
    return Workload(**given)


def _sysbench(given: dict[str, Any], base: Path) -> Sysbench | None:
    """Take the keys of sysbench out of a workload's."""
    script, options = given.pop("sysbench", None), given.pop("options", None)
    if script is None:
        if options is not None:
            raise BadValue("options are only for sysbench", 'Add sysbench = "oltp_read_write".')
        return None
    table = _typed(options or {}, dict, "options")
    return Sysbench(
        script=_beside(_typed(script, str, "sysbench"), base),
        options={name: _written(value) for name, value in table.items()},
    )


def _command(given: dict[str, Any], base: Path) -> Command | None:
    """Take the keys of a command out of a workload's."""
    found: dict[str, Any] = {
        key: _typed(given.pop(key), str, key) for key in _COMMAND if key in given
    }
    if "command" not in found:
        if found:
            raise BadValue(f"{next(iter(found))} is only for a command", 'Add command = "…".')
        return None
    found["run"] = _beside(found.pop("command"), base)
    if "prepare" in found:
        found["prepare"] = _beside(found["prepare"], base)
    if "per_scale" in found:
        found["per_scale"] = int(parse_bytes(found["per_scale"]))
    return Command(**found)


def _beside(command: str, base: Path) -> str:
    """Resolve a command's program relative to the plan if it is given by a path."""
    program, *rest = command.split(" ", 1)
    if "/" not in program:
        return command
    # Absolute: the run may be continued from another directory.
    return " ".join([shlex.quote(str((base / Path(program).expanduser()).absolute())), *rest])


def _script(item: object, base: Path) -> Script:
    table = {"file": item} if isinstance(item, str) else item
    if not isinstance(table, Mapping) or "file" not in table:
        raise BadValue("a script needs a file", 'Write scripts = [{ file = "read.sql" }].')
    _known(table, _SCRIPT, "a script")
    file = _typed(table["file"], str, "file")
    weight = _typed(table.get("weight", 1), int, "weight")
    return Script(name=Path(file).name, text=text_of(base / file), weight=weight)


def _variant(item: Mapping[str, Any], base: Path) -> Variant:
    _known(item, _VARIANT, "a variant")
    given = dict(item)
    if "file" in given:
        given["conf"] = text_of(base / _typed(given.pop("file"), str, "file"))
    if "settings" in given:
        table = _typed(given["settings"], dict, "settings")
        given["settings"] = {name: _written(value) for name, value in table.items()}
    if "server_bin" in given:
        given["server_bin"] = str(base / Path(given["server_bin"]).expanduser())
    for name in ("memory", "disk"):
        if name in given:
            given[name] = int(parse_bytes(_typed(given[name], str, name)))
    for name in ("start", "stop"):
        if name in given:
            given[name] = _beside(_typed(given[name], str, name), base)
    if "image" in given:
        given["image"] = _image(_typed(given["image"], str, "image"), base)
    if given.get("network") in APART:
        given.setdefault("connect", "tcp")
    if "timeout" in given:
        _typed(given["timeout"], int, "timeout")
    given.setdefault("name", "")
    return Variant(**given)


def _image(name: str, base: Path) -> str:
    """A directory beside the plan if it looks like one, else the name of an image."""
    if name.startswith((".", "/", "~")):
        return str((base / Path(name).expanduser()).absolute())
    return name


def _known(table: Mapping[str, Any], keys: Collection[str], where: str) -> None:
    for key in table:
        if key not in keys:
            close = get_close_matches(key, keys, n=1)
            meant = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(keys))}"
            raise BadValue(f"unknown key {key!r} in {where}, {meant}", "See mrtuner bench init.")


def _tables(document: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    tables = document.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        raise BadValue(f"{key} is not a list of tables", f"Start each one with [[{key}]].")
    return tables


def _list(value: object, key: str, kind: type) -> list[Any]:
    if not isinstance(value, list):
        raise BadValue(f"{key} is not a list", f"Write {key} = [{value!r}].")
    if kind is str:
        return [str(item) for item in value]
    return [_typed(item, kind, key) for item in value]


def _typed(value: Any, kind: type, key: str) -> Any:
    """The value, if it is of this kind, else BadValue; true and false are not numbers."""
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        wanted = {int: "a whole number", str: "a text in quotes", dict: "a table"}[kind]
        raise BadValue(f"{key} = {value!r} is not {wanted}", "See mrtuner bench init.")
    return value


def _share(value: object, key: str) -> float:
    try:
        return parse_share(str(value))
    except BadValue:
        raise BadValue(f"{key} = {value!r} is not a share", 'Write "3%" or 0.03.') from None


def _written(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def text_of(path: Path) -> str:
    """The text of a file that a plan names; UsageError when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(
            f"cannot read {path}: {error.strerror}",
            "Paths in a plan are relative to the plan.",
        ) from error
