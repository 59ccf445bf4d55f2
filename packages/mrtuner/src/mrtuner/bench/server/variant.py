"""A variant as a server: on a cluster of ours, directly or in a container, or by a user's command.

Only one server runs at a time. Variants of one site differ in a file of settings, in what the
server is started in, and in its address.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from mrtuner.bench.plan.model import Plan, Variant
from mrtuner.bench.server import containers, guard, instance, layers, sites
from mrtuner.bench.server.containers import Contained
from mrtuner.bench.server.process import Staying
from mrtuner.bench.server.sites import Site, settings_text
from mrtuner.errors import MissingPart
from mrtuner.postgres.cluster import free_port


class VariantServer(Protocol):
    """The server of one variant. `site` names the data that it shares with others."""

    @property
    def site(self) -> str: ...

    @property
    def dsn(self) -> str:
        """Its connection string; in a container, it is known only while the server runs."""

    @property
    def data(self) -> Path | None:
        """Its data directory; None where we have no access."""

    @property
    def companions(self) -> Sequence[int]:
        """Processes beside the server's own whose work is part of what the variant costs."""
        return ()

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def layered(self) -> AbstractContextManager[None]:
        """Run the server on data in a read-only layer during the block, if the variant asks for it.

        The server must be running; it is restarted for this.
        """
        return nullcontext()


def possible(plan: Plan, embedded: Path | None = None) -> Plan:
    """Leave out the variants that cannot run here; `skipped` then has their names and reasons.

    Raises the first reason, a MissingPart, if the baseline cannot run or fewer than two are left.
    """
    missing: dict[str, MissingPart] = {}
    for variant in plan.variants:
        try:
            _require(variant, embedded)
        except MissingPart as error:
            missing[variant.name] = error
    left = tuple(variant for variant in plan.variants if variant.name not in missing)
    if missing and (plan.baseline.name in missing or len(left) < 2):
        raise next(iter(missing.values()))
    skipped = {name: error.message for name, error in missing.items()}
    return replace(plan, variants=left, skipped=skipped) if skipped else plan


def _require(variant: Variant, embedded: Path | None) -> None:
    if variant.start is not None:
        return
    sites.binaries_of(variant, embedded)
    limited = variant.iops is not None or variant.disk is not None
    instance.require(memory=variant.memory is not None, volume=limited)
    if variant.storage != "volume":
        layers.require()
    if variant.network is not None:
        containers.require(variant)


@contextmanager
def servers(plan: Plan, embedded: Path | None = None) -> Iterator[Mapping[str, VariantServer]]:
    """The server of every variant, stopped; all that was created for them is removed at the end.

    `embedded` is the installation of variants that name none.
    """
    with ExitStack() as stack:
        stack.enter_context(containers.own_network(plan.variants))
        known: dict[str, Site] = {}
        made: dict[str, VariantServer] = {}
        for variant in plan.variants:
            server = _server(stack, known, variant, embedded)
            stack.callback(server.stop)
            made[variant.name] = server
        yield made


def _server(
    stack: ExitStack, known: dict[str, Site], variant: Variant, embedded: Path | None
) -> VariantServer:
    if variant.start is not None:
        return Commanded(variant)
    key = sites.key(variant)
    if key not in known:
        known[key] = sites.make(stack, variant, embedded)
    site = known[key]
    if variant.network is None:
        return Embedded(variant, site, sites.group(stack, variant, site))
    container = _container(stack, variant, site)
    stack.enter_context(guard.command_run(container.removal()))
    return InContainer(container, site)


def _container(stack: ExitStack, variant: Variant, site: Site) -> Contained:
    cluster = site.cluster
    installation = containers.installation_mounts(cluster.binaries)
    root: Path | None = Path("/")
    if variant.image == "minimal":
        directory = stack.enter_context(
            guard.temporary_directory("mrtuner-root-", Path("/var/tmp"))  # noqa: S108
        )
        program = cluster.binaries.program("postgres")
        root = containers.minimal_root(directory, program, installation)
    elif variant.image != "host":
        root = Path(variant.image) if variant.image.startswith("/") else None
    return Contained(
        name=f"mrtuner-{os.getpid()}-{variant.name}",
        variant=variant,
        root=root,
        mounts=[*((path, "ro") for path in installation), (cluster.directory, "rw")],
        user=cluster.user,
        port=cluster.port,
        published=free_port(),
        capped=site.volume.device if site.volume is not None and instance.unified() else None,
    )


class _OnSite(VariantServer):
    """A variant on a cluster of ours."""

    def __init__(self, variant: Variant, site: Site) -> None:
        self.variant, self._site = variant, site
        self.text = settings_text(variant)

    @property
    def site(self) -> str:
        return self._site.key

    @property
    def data(self) -> Path | None:
        return self._site.cluster.data

    @contextmanager
    def layered(self) -> Iterator[None]:
        if self.variant.storage != "layer":
            yield
            return
        self.stop()
        data = self._site.cluster.data
        with layers.mounted(data, data, self._site.scratch):
            self.start()
            try:
                yield
            finally:
                self.stop()
        self.start()


class Embedded(_OnSite):
    """A variant whose server runs here, or in a group with less memory."""

    def __init__(self, variant: Variant, site: Site, group: Path | None) -> None:
        super().__init__(variant, site)
        self.group = group

    @property
    def dsn(self) -> str:
        if self.variant.connect == "tcp":
            return f"{self._site.cluster.dsn(tcp=True)} password={self._site.password}"
        return self._site.cluster.dsn()

    def start(self) -> None:
        """Start the server with the variant's settings; ConnectError with the log's reason."""
        self._site.configure(self.text)
        with instance.inside(self.group):
            self._site.cluster.start()
        self._site.admit()

    def stop(self) -> None:
        self._site.cluster.stop()


class InContainer(_OnSite):
    """A variant whose server runs in a container."""

    def __init__(self, container: Contained, site: Site) -> None:
        super().__init__(container.variant, site)
        self.container = container
        self.process = Staying(container.variant.name, container.variant.timeout)

    @property
    def dsn(self) -> str:
        if self.variant.connect == "socket":
            return self._site.cluster.dsn()
        host, port = self.container.address()
        known = f"host={host} port={port} user=postgres dbname=postgres"
        return f"{known} password={self._site.password}"

    @property
    def companions(self) -> Sequence[int]:
        return containers.engine_processes()

    def start(self) -> None:
        """Run the container and wait for the server; ConnectError, with the reason, if it fails."""
        self._site.configure(self.text)
        cluster = self._site.cluster
        words = self.container.command(cluster.binaries.program("postgres"), cluster.data)
        self.process.start(words, lambda: self.dsn)
        self._site.admit()

    def stop(self) -> None:
        """Shut the server down fast; the container ends with it."""
        self.process.stop()


class Commanded(VariantServer):
    """A server that a user's command starts; it keeps its data between two starts."""

    data: Path | None = None

    def __init__(self, variant: Variant) -> None:
        self.variant = variant
        self.process = Staying(variant.name, variant.timeout)

    @property
    def site(self) -> str:
        return f"command {self.variant.name}"

    @property
    def dsn(self) -> str:
        return self.variant.dsn or ""

    def start(self) -> None:
        """Run the command and wait until the server answers; ConnectError if it does not."""
        self.process.start(shlex.split(self.variant.start or ""), lambda: self.dsn)

    def stop(self) -> None:
        """Stop it by the variant's command, else by an interrupt; kill it if it does not end."""
        self.process.stop(shlex.split(self.variant.stop) if self.variant.stop else None)
