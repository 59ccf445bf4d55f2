"""`mrtuner record` as a service: a systemd unit, a container recipe, a Kubernetes manifest.

None of them holds a password: connection strings with one are refused. libpq takes it from the
environment or from a file of its owner.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import stat
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Final

from mrtuner import __version__
from mrtuner.errors import UsageError
from mrtuner.files import read_file
from mrtuner.history.fleet import read_fleet
from mrtuner.history.source import in_directory
from mrtuner.postgres.connect import masked
from mrtuner.requirements import required

_DIRECTORY: Final = Path("/var/lib/mrtuner")
#: Where the file for --config and the SQL files for --metrics are in a container.
_CONFIG: Final = Path("/etc/mrtuner/fleet.toml")
_METRICS: Final = Path("/etc/mrtuner/metrics")
#: ID of the user in the container, and of its volume's owner.
_USER: Final = 10001
_WHEEL: Final = f"mrtuner-{__version__}-py3-none-any.whl"


def written(
    kind: str, targets: Sequence[str], directory: Path | None, config: Path | None,
    metrics: Path | None = None, more: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the text of a service for these targets; `more` are further options of the command.

    Raises:
        UsageError: nothing is to be recorded, a connection string holds a password, or a container
            could not reach a server that is called local.
        BadValue: a file that goes into a container is not understood.
    """
    if not targets and config is None:
        raise UsageError("no server to record", "Name one, or give --config FILE.")
    named = list(targets)
    if config is not None and kind != "systemd":
        named += [one.dsn for one in read_fleet(config).instances]
    if metrics is not None and kind != "systemd" and not in_directory(metrics):
        raise UsageError(f"{metrics} has no SQL files", "Name another directory with --metrics.")
    for target in named:
        if masked(target) != target:
            raise UsageError(
                "a service file must not hold a password",
                "Leave it out of the connection string and use ~/.pgpass or PGPASSWORD.",
            )
    if kind != "systemd" and "local" in named:
        raise UsageError("a container cannot find a local server", "Give a connection string.")
    writers = {"systemd": _systemd, "container": _container, "kubernetes": _kubernetes}
    return writers[kind](targets, (directory or _DIRECTORY).absolute(), config, metrics, more)


def _arguments(
    targets: Sequence[str], directory: Path, config: Path | None, metrics: Path | None,
    more: Sequence[str],
) -> list[str]:  # fmt: skip
    files = [*(["--config", str(config)] if config else []),
             *(["--metrics", str(metrics)] if metrics else [])]  # fmt: skip
    return ["record", *targets, "--dir", str(directory), *files, *more]


def _systemd(
    targets: Sequence[str], directory: Path, config: Path | None, metrics: Path | None,
    more: Sequence[str],
) -> str:  # fmt: skip
    program = _program()
    arguments = _arguments(
        targets, directory, config and config.absolute(), metrics and metrics.absolute(), more
    )
    command = " ".join(_in_unit(one) for one in (str(program), *arguments))
    return f"""\
# /etc/systemd/system/mrtuner-record.service
#   useradd --system --home-dir /var/lib/mrtuner --shell /usr/sbin/nologin mrtuner
#   systemctl daemon-reload; systemctl enable --now mrtuner-record
# A password: PGPASSWORD=… in /etc/default/mrtuner-record, mode 600, which systemd reads.
{_closed(program)}[Unit]
Description=Record the history of PostgreSQL servers
Wants=network-online.target
After=network-online.target postgresql.service

[Service]
User=mrtuner
{_writable(directory)}
EnvironmentFile=-/etc/default/mrtuner-record
ExecStart={command}
Restart=on-failure
RestartSec=10
TimeoutStopSec=60
Nice=10
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
# Not PrivateTmp: the socket of a server may be there.
ReadWritePaths=/tmp

[Install]
WantedBy=multi-user.target
"""


def _in_unit(word: str) -> str:
    """A word of ExecStart. Source: systemd.service(5), systemd.unit(5)."""
    word = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w@%$+=:,./?&-]+", word, re.ASCII):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _program() -> Path:
    """The command as installed: beside its interpreter, or wherever the shell finds it."""
    beside = Path(sys.executable).with_name("mrtuner")
    found = None if beside.exists() else shutil.which("mrtuner")
    return beside if found is None else Path(found).absolute()


def _closed(program: Path) -> str:
    """Return a warning if others may not enter a directory above the program, such as a home.

    The interpreter of a virtual environment is a link to one that may lie elsewhere.
    """
    above = (*reversed(program.parents), *reversed(Path(sys.executable).resolve().parents))
    for directory in above:
        if directory.exists() and not directory.stat().st_mode & stat.S_IXOTH:
            return (
                f"# The user mrtuner may not enter {directory}: install MrTuner in /opt/mrtuner,\n"
                "# with an interpreter that every user may run, and write this unit again from "
                "there.\n"
            )
    return ""


def _writable(directory: Path) -> str:
    """Return lines that make the history's directory writable; systemd creates it in /var/lib."""
    below = Path("/var/lib")
    if directory.parent == below and shlex.quote(directory.name) == directory.name:
        return f"StateDirectory={directory.name}\nStateDirectoryMode=0750"
    path = shlex.quote(str(directory))
    return (
        f"# It must exist: install --directory --owner mrtuner --mode 750 {path}\n"
        f"ReadWritePaths={_in_unit(str(directory))}"
    )


def _container(
    targets: Sequence[str], directory: Path, config: Path | None, metrics: Path | None,
    more: Sequence[str],
) -> str:  # fmt: skip
    arguments = _arguments(
        targets, directory, config and _CONFIG, metrics and _METRICS, more
    )  # fmt: skip
    copied = [
        *([f"COPY {json.dumps([config.name, str(_CONFIG)])}"] if config else []),
        *([f"COPY {json.dumps([metrics.name, str(_METRICS)])}"] if metrics else []),
    ]
    check = ["mrtuner", "history", "status", "--check", "--dir", str(directory)]
    of_aws = config is not None and bool(read_fleet(config).managed)
    aws = of_aws or any(one.startswith(("rds:", "s3:")) for one in arguments)
    extras = ("history", "rds") if aws else ("history",)
    lines = "".join(f"{line}\n" for line in copied)
    home = shlex.quote(str(directory))
    return f"""\
# Beside this file: {", ".join([_WHEEL, *(one.name for one in (config, metrics) if one)])}
# (make dist, in a clone of MrTuner, writes the wheel). Docker's format keeps the health check.
#   podman build --format docker -t mrtuner-record:{__version__} -f Containerfile .
#   podman run -d --name mrtuner-record --stop-timeout 60 -e PGPASSWORD \\
#     -v mrtuner:{home} mrtuner-record:{__version__}
FROM docker.io/library/python:3.12-slim
{_requirements(extras)}COPY {_WHEEL} /tmp/
RUN pip install --no-cache-dir '/tmp/{_WHEEL}[{",".join(extras)}]' \\
    && useradd --uid {_USER} --user-group --home-dir {home} --no-create-home mrtuner \\
    && install --directory --owner mrtuner --group mrtuner --mode 750 {home}
{lines}USER mrtuner
VOLUME {json.dumps([str(directory)])}
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=1m --start-period=2m CMD {json.dumps(check)}
ENTRYPOINT {json.dumps(["mrtuner", *arguments])}
"""


def _requirements(extras: Sequence[str]) -> str:
    """Return a line that stays cached if only the wheel is new; empty without metadata."""
    try:
        names = required(requires("mrtuner") or (), extras)
    except PackageNotFoundError:
        return ""
    return f"RUN pip install --no-cache-dir {shlex.join(names)}\n" if names else ""


def _kubernetes(
    targets: Sequence[str], directory: Path, config: Path | None, metrics: Path | None,
    more: Sequence[str],
) -> str:  # fmt: skip
    files = {
        **({_CONFIG: read_file(config)} if config else {}),
        **(
            {_METRICS / one.name: read_file(one) for one in sorted(metrics.glob("*.sql"))}
            if metrics
            else {}
        ),
    }
    arguments = _arguments(targets, directory, config and _CONFIG, metrics and _METRICS, more)
    documents = [_service(), *([_config_map(files)] if files else []),
                 _stateful_set(arguments, directory, list(files))]  # fmt: skip
    return f"""\
# The image is built from the recipe of: mrtuner record … --unit container
# A password: kubectl create secret generic mrtuner-record --from-env-file FILE, where FILE has
# the line PGPASSWORD=…; then: kubectl apply -f THIS
{_yaml(documents)}"""


def _yaml(documents: Sequence[object]) -> str:
    import yaml

    class Dumper(yaml.SafeDumper):
        """Writes texts of several lines as blocks, which stay readable."""

    def represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent)
    text: str = yaml.dump_all(
        documents, Dumper=Dumper, sort_keys=False, width=100, allow_unicode=True
    )
    return text


_LABELS: Final = {"app": "mrtuner-record"}
_METADATA: Final = {"name": "mrtuner-record"}


def _service() -> dict[str, object]:
    """The headless service that a StatefulSet names."""
    return {
        "apiVersion": "v1", "kind": "Service", "metadata": dict(_METADATA),
        "spec": {"clusterIP": "None", "selector": dict(_LABELS)},
    }  # fmt: skip


def _config_map(files: dict[Path, str]) -> dict[str, object]:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": dict(_METADATA),
        "data": {path.name: text for path, text in files.items()},
    }  # fmt: skip


def _stateful_set(
    arguments: Sequence[str], directory: Path, files: Sequence[Path]
) -> dict[str, object]:
    mounts = [
        {"name": "history", "mountPath": str(directory)},
        # Needed while rows are moved into Parquet.
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - of the container
        *({"name": "config", "mountPath": str(path), "subPath": path.name, "readOnly": True}
          for path in files),
    ]  # fmt: skip
    config = [{"name": "config", "configMap": dict(_METADATA)}] if files else []
    container = {
        "name": "mrtuner-record",
        "image": f"mrtuner-record:{__version__}",
        # The recipe's image names its own targets; these are used instead.
        "command": ["mrtuner"],
        # Kubernetes would replace $(NAME) with a variable's value.
        "args": [one.replace("$(", "$$(") for one in arguments],
        "env": [{"name": "HOME", "value": str(directory)}],
        "envFrom": [{"secretRef": {"name": "mrtuner-record", "optional": True}}],
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "1Gi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # Not ready: a source is late, or no server answers. It restarts nothing.
        "readinessProbe": {
            "exec": {
                "command": ["mrtuner", "history", "status", "--check", "--dir", str(directory)]
            },
            "initialDelaySeconds": 30, "periodSeconds": 60, "timeoutSeconds": 10,
        },
        "volumeMounts": mounts,
    }  # fmt: skip
    pod = {
        "terminationGracePeriodSeconds": 60,
        "securityContext": {
            "runAsNonRoot": True, "runAsUser": _USER, "runAsGroup": _USER, "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}, *config],
    }  # fmt: skip
    return {
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": dict(_METADATA),
        "spec": {
            "serviceName": "mrtuner-record",
            "replicas": 1,  # a store has one writer
            "selector": {"matchLabels": dict(_LABELS)},
            "template": {"metadata": {"labels": dict(_LABELS)}, "spec": pod},
            "volumeClaimTemplates": [{
                "metadata": {"name": "history"},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "10Gi"}},
                },
            }],
        },
    }  # fmt: skip
