"""The lab itself: start it, point boto3 at it, simulate faults, close it."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from mrtuner.errors import MrTunerError, UsageError
from mrtuner.extras import require
from rdstune.lab.clock import Clock
from rdstune.lab.front import Front, serve
from rdstune.lab.operations import maintenance, snapshots
from rdstune.lab.operations.supported import OPERATIONS
from rdstune.lab.servers.running import Servers
from rdstune.lab.simulated_faults import Failure, Trouble
from rdstune.lab.world import Event, Instance, Maintenance, Value, World

_REGION: Final = "us-east-1"
_SERVERS_SECONDS: Final = 120
_TICK: Final = 0.02  # seconds; due tasks run at most this late
_POLL: Final = 0.02  # seconds between checks whether to stop listening
_LOG: Final = logging.getLogger(__name__)


class Lab:
    """A local stand-in for Amazon RDS on 127.0.0.1, as strict as RDS, with moto for other services.

    As a context manager it runs within the block. `servers` puts a real PostgreSQL behind every
    instance; `speed` is how many times faster than real time the lab's clock runs; `port` 0 picks
    a free port. `programs` maps major versions to installations (their bin directories), besides
    the embedded one and the system's packages. Nothing outlives the block or the process.
    """

    def __init__(
        self,
        *,
        servers: bool = False,
        region: str = _REGION,
        speed: float = 60,
        port: int = 0,
        programs: Mapping[int, Path] | None = None,
    ) -> None:
        if speed <= 0:
            raise UsageError(f"the speed of the lab's clock cannot be {speed}", "Use 1 or more.")
        self.region = region
        self._port = port
        self._trouble = Trouble()
        self._world = World(Clock(speed), Servers(programs) if servers else None)
        self._front = Front(self._world, self._trouble)
        self._server: Any = None
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()

    def start(self) -> Lab:
        """Start listening and start the clock."""
        if self._server is not None:
            return self
        require("boto3", "flask", "moto", "werkzeug")
        self._server = serve(self._front, self._port)
        self._run(partial(self._server.serve_forever, _POLL), "lab-http")
        self._run(self._tick, "lab-clock")
        return self

    def close(self) -> None:
        """Stop listening; stop and remove every server."""
        self._closing.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        for thread in self._threads:
            thread.join()
        if self._world.servers is not None:
            self._world.servers.close()

    def __enter__(self) -> Lab:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def endpoint_url(self) -> str:
        if self._server is None:
            raise UsageError("the lab is not running", "Use it in a with block, or call start().")
        return f"http://127.0.0.1:{self._server.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Return variables that point any AWS SDK or command here, away from real credentials."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint_url,
            "AWS_ACCESS_KEY_ID": "lab",
            "AWS_SECRET_ACCESS_KEY": "lab",
            "AWS_DEFAULT_REGION": self.region,
            "AWS_REGION": self.region,
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def calls(self) -> tuple[tuple[str, str], ...]:
        """The (service, action) of every request in order, including refused ones."""
        return tuple(self._front.calls)

    def forget_calls(self) -> None:
        self._front.calls.clear()

    def now(self) -> datetime:
        with self._world.lock:
            return self._world.clock.now()

    def advance(self, delta: timedelta | None = None, **parts: float) -> None:
        """Move the lab's clock ahead: advance(days=3). Tasks that become due are run."""
        with self._world.lock:
            self._world.clock.advance(delta or timedelta(**parts))
            self._world.clock.run_due()

    def go_on_at(self, speed: float) -> None:
        """Run this many times as fast as real time until the next reset.

        At 1 a minute takes a minute, so pending work stays pending until the clock is moved.
        """
        with self._world.lock:
            self._world.clock.go_on_at(speed)

    def settle(self) -> None:
        """Move the clock ahead until all work that takes less than an hour is done.

        Later maintenance windows and dates are not reached. Waits for real servers.
        """
        self.advance(hours=1)
        limit = time.monotonic() + _SERVERS_SECONDS
        while self._world.starting:
            if time.monotonic() > limit:
                raise MrTunerError("a server in the lab does not start", "Check its events.")
            time.sleep(0.01)

    def throttle(self, per_second: float | None) -> None:
        """Answer Throttling to calls above this rate, per region; None: stop throttling."""
        self._trouble.limit(per_second)

    @property
    def throttled(self) -> int:
        return self._trouble.throttled

    def deny(self, *actions: str) -> None:
        """Answer AccessDenied to these actions: "rds:ModifyDBParameterGroup", "kms:DescribeKey"."""
        self._trouble.denied |= {_pair(action) for action in actions}

    def allow(self, *actions: str) -> None:
        """Undo denials of the named actions; of all of them when none is named."""
        named: Iterable[tuple[str, str]] = [_pair(action) for action in actions]
        self._trouble.denied -= set(named or self._trouble.denied)

    def fail_region(self, region: str, how: Failure = "unavailable") -> None:
        """Make a region "closed" to the account, "unavailable" (503) or "unreachable".

        Or answer as an intermediary would: "empty" (403, no body), a "page" (200, HTML).
        """
        self._trouble.failing[region] = how

    def heal_region(self, region: str) -> None:
        self._trouble.failing.pop(region, None)

    def set_memory(self, class_name: str, memory: int) -> None:
        """Set DBInstanceClassMemory [bytes] for a class, instead of our estimate."""
        with self._world.lock:
            self._world.memory[class_name] = memory

    def set_parameter(
        self, group: str, name: str, value: str, *, region: str | None = None
    ) -> None:
        """Store a value in an instance's group that RDS would refuse today, but may have stored."""
        with self._world.lock:
            found = self._world.region(region or self.region).groups[group]
            found.values[name] = Value(value, "pending-reboot")

    def fail_snapshot(self, identifier: str, region: str | None = None) -> None:
        """Make a snapshot, or a copy under way, "failed"."""
        with self._world.lock:
            self._world.region(region or self.region).snapshots[identifier].status = "failed"

    def lose_snapshot(self, identifier: str, region: str | None = None) -> None:
        """Remove a snapshot, whatever its status, as someone else might."""
        with self._world.lock:
            self._world.region(region or self.region).snapshots.pop(identifier, None)

    def add_maintenance(
        self,
        identifier: str,
        action: str = "system-update",
        *,
        description: str = "New Operating System update is available",
        auto_applied_after: datetime | None = None,
        forced: datetime | None = None,
        opted: str | None = None,
        region: str | None = None,
    ) -> None:
        """Add pending maintenance for an instance or a cluster; without dates it is optional.

        It is done in the first window after `auto_applied_after`, or at `forced`, by the lab's
        clock (`now`, `advance`).
        """
        pending = Maintenance(
            action=action,
            description=description,
            auto_applied=auto_applied_after,
            forced=forced,
            opted=opted,
        )
        with self._world.lock:
            where = self._world.region(region or self.region)
            kind = "cluster" if identifier in where.clusters else "db"
            maintenance.add(where, where.arn(kind, identifier), pending)

    def call(self, action: str, region: str | None = None, **params: Any) -> dict[str, Any]:
        """Make an RDS call without HTTP, for fleets: call("CreateDBInstance", "eu-west-1", …).

        It is neither recorded nor throttled. Raises Fault when the lab refuses it.
        """
        with self._world.lock:
            self._world.clock.run_due()
            return OPERATIONS[action](self._world.region(region or self.region), params)

    def add_automated_snapshot(self, identifier: str) -> str:
        """Take the snapshot of a nightly backup; return its identifier."""
        with self._world.lock:
            where = self._world.region(self.region)
            stamp = self._world.clock.now().strftime("%Y-%m-%d-%H-%M")
            name = f"rds:{identifier}-{stamp}"
            snapshots.take(where, where.instance(identifier), name, "automated")
            return name

    def instance(self, identifier: str, region: str | None = None) -> Instance:
        """Return the lab's own record of an instance: what runs, and under which group."""
        with self._world.lock:
            return self._world.region(region or self.region).instance(identifier)

    def instances(self) -> tuple[Instance, ...]:
        """Return every instance of every region, as `instance` does."""
        with self._world.lock:
            return tuple(
                each for region in self._world.regions() for each in region.instances.values()
            )

    def dsn(self, identifier: str, region: str | None = None) -> str:
        """Return a conninfo for the master user of the server behind an instance, over TCP."""
        return self._behind().dsn(self.instance(identifier, region))

    def aside(self, identifier: str) -> dict[str, str]:
        """Return the parameters whose value on an instance's server is not its group's, and why."""
        return self._behind().aside(self.instance(identifier))

    def events(self, identifier: str, region: str | None = None) -> tuple[Event, ...]:
        """Return a resource's events, with the numbers that DescribeEvents leaves out."""
        with self._world.lock:
            told = self._world.region(region or self.region).events
            return tuple(event for event in told if event.source == identifier)

    def reset(self) -> None:
        """Remove every resource, recorded call and simulated fault."""
        with self._world.lock:
            if self._world.servers is not None:
                self._world.servers.clear()
            self._world.clear()
            self._world.clock.restart()
        self._trouble.clear()
        self.forget_calls()
        self._front.reset()

    def _behind(self) -> Servers:
        if self._world.servers is None:
            raise UsageError("this lab has no servers", "Start it with servers=True.")
        return self._world.servers

    def _run(self, target: Any, name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _tick(self) -> None:
        """Run due tasks, whether or not a request comes in."""
        while not self._closing.is_set():
            with self._world.lock:
                try:
                    self._world.clock.run_due()
                except Exception:  # a bug must not stop the lab's clock
                    _LOG.exception("the lab's clock")
                wait = self._world.clock.wait()
            self._closing.wait(min(_TICK if wait is None else max(wait, 0.002), _TICK))


def _pair(action: str) -> tuple[str, str]:
    service, _, name = action.rpartition(":")
    return service or "rds", name
