"""The life cycle of an instance: create, modify, reboot, fail over, stop, delete.

Each step is scheduled on the lab's clock. `world.servers`, if present, does the same to a real
PostgreSQL; that work happens outside the lock.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from mrtuner.errors import MrTunerError
from rdstune.lab import spread
from rdstune.lab.operations.events import tell
from rdstune.lab.servers import machine
from rdstune.lab.world import Instance, Region

Then = Callable[[], None]
_LOG: Final = logging.getLogger(__name__)


def begin(region: Region, instance: Instance) -> None:
    """Create the instance, which becomes available after a while."""
    born = partial(boot, region, instance, partial(tell, region, 5, instance))
    _later(region, region.world.delays.create, instance, born)


def reboot(region: Region, instance: Instance, told: Sequence[int] = (6,)) -> None:
    """Restart in place: every waiting parameter comes into force; then record the events `told`."""
    instance.status = "rebooting"
    power_off(region, instance)
    _boot_later(region, instance, partial(_tell_all, region, instance, told))


def fail_over(region: Region, instance: Instance) -> None:
    """Restart on the standby in the other zone; do nothing just after another failover.

    Events in the order of the RDS User Guide's descriptions: 0013 at the start, 0006 and 0049
    at the end, 0015 when the DNS name has moved. The minimum time between failovers is guessed.
    """
    now = region.clock.now()
    if instance.rested is not None and now < instance.rested:
        tell(region, 34, instance)
        return
    instance.status = "rebooting"
    tell(region, 13, instance)
    power_off(region, instance, crash=True)
    then = partial(_failed_over, region, instance)
    _later(region, region.world.delays.failover, instance, partial(boot, region, instance, then))


def change(
    region: Region, instance: Instance, change: Then, told: Sequence[int], *, restarts: bool
) -> None:
    """Make a change after a while, with a restart where it needs one.

    `told` are the numbers of the events recorded when it is done.
    """
    instance.status = "modifying"
    done = partial(_changed, region, instance, change, told, restarts)
    _later(region, region.world.delays.modify, instance, done)


def stop(region: Region, instance: Instance) -> None:
    instance.status = "stopping"
    power_off(region, instance)
    done = partial(_stopped, region, instance)
    _later(region, region.world.delays.modify, instance, done)


def start(region: Region, instance: Instance) -> None:
    instance.status = "starting"
    _boot_later(region, instance, partial(tell, region, 88, instance))


def _boot_later(region: Region, instance: Instance, then: Then) -> None:
    _later(region, region.world.delays.reboot, instance, partial(boot, region, instance, then))


def delete(region: Region, instance: Instance) -> None:
    instance.status = "deleting"
    _later(region, region.world.delays.delete, instance, partial(_gone, region, instance))


def boot(region: Region, instance: Instance, then: Then) -> None:
    """Start with all the groups' values; run `then` once it is available."""
    spread.restarted(region, instance)
    reason = machine.cannot_start(region, instance)
    if reason is not None:
        _incompatible(region, instance, reason)
        return
    if region.world.servers is None:
        _up(instance, then)
        return
    if not machine.has_server(region, instance):
        writer = machine.writer_of(region, instance)
        instance.host, instance.port = writer.host, writer.port
        _up(instance, then)
        return
    region.world.starting += 1
    threading.Thread(
        target=_start_server, args=(region, instance, then), daemon=True, name="lab-server-start"
    ).start()


def power_off(region: Region, instance: Instance, *, crash: bool = False) -> None:
    tell(region, 4, instance)
    if region.world.servers is not None and machine.has_server(region, instance):
        region.world.servers.stop(instance, "immediate" if crash else "fast")


def _start_server(region: Region, instance: Instance, then: Then) -> None:
    servers = region.world.servers
    if servers is None:
        return
    reason = None
    try:
        address = servers.address(instance)
        with region.world.lock:
            for each in machine.sharing(region, instance):
                each.host, each.port = address
            values = machine.values(region, instance)
        servers.start(instance, values)
    except MrTunerError as error:
        reason = error.message
    except Exception as error:  # whatever the error, the instance must not stay in this status
        _LOG.exception("the server of %s", instance.identifier)
        reason = str(error)
    with region.world.lock:
        region.world.starting -= 1
        if region.instances.get(instance.identifier) is not instance:
            return
        if reason is None:
            _up(instance, then)
        else:
            _incompatible(region, instance, reason)


def _up(instance: Instance, then: Then) -> None:
    instance.status = "available"
    then()


def _incompatible(region: Region, instance: Instance, reason: str) -> None:
    instance.status = "incompatible-parameters"
    tell(region, 35, instance, reason=reason)


def _failed_over(region: Region, instance: Instance) -> None:
    instance.zone, instance.secondary_zone = instance.secondary_zone or instance.zone, instance.zone
    instance.rested = region.rested()
    _tell_all(region, instance, (6, 49, 15))


def _changed(
    region: Region, instance: Instance, change: Then, told: Sequence[int], restarts: bool
) -> None:
    if restarts:
        power_off(region, instance)
    change()
    then = partial(_tell_all, region, instance, told)
    if restarts:
        boot(region, instance, then)
    else:
        _up(instance, then)


def _tell_all(region: Region, instance: Instance, numbers: Sequence[int]) -> None:
    for number in numbers:
        tell(region, number, instance)


def _stopped(region: Region, instance: Instance) -> None:
    instance.status = "stopped"
    tell(region, 87, instance)


def _gone(region: Region, instance: Instance) -> None:
    del region.instances[instance.identifier]
    tell(region, 3, instance)
    cluster = region.clusters.get(instance.cluster or "")
    left = region.members(cluster) if cluster is not None else []
    if cluster is not None:
        cluster.member_status.pop(instance.identifier, None)
        if cluster.writer == instance.identifier:
            cluster.writer = left[0].identifier if left else None
    if region.world.servers is not None and not left:
        region.world.servers.remove(instance)


def _later(region: Region, seconds: float, instance: Instance, action: Then) -> None:
    """Run the action later, unless the instance has been or is being deleted."""
    going = instance.status == "deleting"

    def due() -> None:
        there = region.instances.get(instance.identifier) is instance
        if there and (going or instance.status != "deleting"):
            action()

    region.clock.after(seconds, due)
