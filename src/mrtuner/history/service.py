"""`mrtuner record` as a service: a systemd unit, a container recipe, a Kubernetes manifest.

None of them holds a password: connection strings with one are refused. libpq takes it from the
environment or from a file of its owner.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mrtuner import __version__
from mrtuner.errors import UsageError
from mrtuner.postgres.connect import masked

_DIRECTORY: Final = Path("/var/lib/mrtuner")


def written(
    kind: str, targets: Sequence[str], directory: Path | None, config: Path | None,
    more: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return the text of a service for these targets; `more` are further options of the command.

    Raises:
        UsageError: nothing is to be recorded, or a connection string holds a password.
    """
    if not targets and config is None:
        raise UsageError("no server to record", "Name one, or give --config FILE.")
    for target in targets:
        if masked(target) != target:
            raise UsageError(
                "a service file must not hold a password",
                "Leave it out of the connection string and use ~/.pgpass or PGPASSWORD.",
            )
    writers = {"systemd": _systemd, "container": _container, "kubernetes": _kubernetes}
    listed = ["--config", str(config.absolute())] if config else []
    arguments = ["record", *targets, "--dir", str(directory or _DIRECTORY), *listed, *more]
    return writers[kind](arguments)


def _systemd(arguments: list[str]) -> str:
    program = Path(sys.executable).with_name("mrtuner")
    # A percent sign begins a specifier in a unit.
    command = shlex.join([str(program), *arguments]).replace("%", "%%")
    return f"""\
# /etc/systemd/system/mrtuner-record.service
# useradd --system mrtuner; then: systemctl enable --now mrtuner-record
# The password, if one is needed: ~mrtuner/.pgpass, mode 600.
[Unit]
Description=Record the history of PostgreSQL servers
After=network-online.target
Wants=network-online.target

[Service]
User=mrtuner
StateDirectory=mrtuner
ExecStart={command}
Restart=on-failure
RestartSec=10
TimeoutStopSec=60
Nice=10
NoNewPrivileges=yes
ProtectSystem=strict
ProtectHome=read-only
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""


def _container(arguments: list[str]) -> str:
    import json

    aws = any(one.startswith(("rds:", "s3:")) for one in arguments)
    extras = "history,rds" if aws else "history"
    return f"""\
# podman build -t mrtuner-record -f Containerfile .
# podman run -d --name mrtuner-record -v mrtuner:/var/lib/mrtuner -e PGPASSWORD mrtuner-record
FROM docker.io/library/python:3.12-slim
RUN pip install --no-cache-dir 'mrtuner[{extras}]=={__version__}' \\
    && useradd --system --home-dir /var/lib/mrtuner --create-home mrtuner
USER mrtuner
VOLUME /var/lib/mrtuner
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=1m CMD mrtuner history status --check --dir /var/lib/mrtuner
ENTRYPOINT {json.dumps(["mrtuner", *arguments])}
"""


def _kubernetes(arguments: list[str]) -> str:
    import json

    listed = "\n".join(f"            - {json.dumps(one)}" for one in arguments)
    return f"""\
# kubectl create secret generic mrtuner-record --from-literal=PGPASSWORD=…
# The image is built from: mrtuner record … --unit container
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: mrtuner-record
spec:
  serviceName: mrtuner-record
  replicas: 1 # a store has one writer
  selector:
    matchLabels: {{app: mrtuner-record}}
  template:
    metadata:
      labels: {{app: mrtuner-record}}
    spec:
      terminationGracePeriodSeconds: 60
      securityContext: {{runAsNonRoot: true, runAsUser: 10001, fsGroup: 10001}}
      containers:
        - name: mrtuner-record
          image: mrtuner-record:{__version__}
          args:
{listed}
          envFrom:
            - secretRef: {{name: mrtuner-record}}
          resources:
            requests: {{cpu: 100m, memory: 256Mi}}
            limits: {{memory: 1Gi}}
          readinessProbe: # not ready: a source is late, or no server answers
            exec:
              command: [mrtuner, history, status, --check, --dir, {_DIRECTORY}]
            initialDelaySeconds: 120
            periodSeconds: 60
            timeoutSeconds: 10
          volumeMounts:
            - {{name: history, mountPath: {_DIRECTORY}}}
  volumeClaimTemplates:
    - metadata: {{name: history}}
      spec:
        accessModes: [ReadWriteOnce]
        resources: {{requests: {{storage: 10Gi}}}}
"""
