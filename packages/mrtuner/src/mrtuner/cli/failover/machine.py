"""The client machine of a prediction, as the command line describes it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mrtuner.cli.common import options, terminal
from mrtuner.errors import MrTunerError, UsageError

if TYPE_CHECKING:
    from mrtuner.failover.predict.kernel import Kernel

_options = options.stacked(
    click.option(
        "--sysctl", metavar="FILE", default="local", show_default=True,
        help="File with the client machine's settings, as printed by sysctl -a.",
    ),
    options.time_option("--rtt", "Round-trip time to the server."),
    click.option(
        "--kernel", metavar="VERSION",
        help="Kernel version of that machine (uname -r), with --sysctl.",
    ),
    click.option(
        "--hz", type=int, metavar="N",
        help="Kernel ticks per second of that machine, with --sysctl.",
    ),
)  # fmt: skip


def kernel_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options about the client machine; the command gets them as `kernel` and `rtt`."""

    @wraps(function)
    def with_kernel(*, sysctl: str, kernel: str | None, hz: int | None, **rest: Any) -> Any:
        return function(kernel=_kernel(sysctl, kernel, hz), **rest)

    return _options(with_kernel)


def _kernel(source: str, release: str | None, hz: int | None) -> Kernel:
    from mrtuner.failover.predict.kernel import ASSUMED_HZ, from_text, local

    if source == "local":
        if release is not None or hz is not None:
            raise UsageError(
                "--kernel and --hz describe another machine", "Give its --sysctl FILE too."
            )
        return local()
    try:
        text = Path(source).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MrTunerError(
            f"cannot read {source}: {getattr(error, 'strerror', None) or 'not text'}",
            "Create it on the client machine: sysctl -a > FILE.",
        ) from error
    if hz is None:
        terminal.print_note(f"HZ is not in {source}: {ASSUMED_HZ} is assumed; set it with --hz")
    return from_text(text, source, hz=ASSUMED_HZ if hz is None else hz, release=release)
