"""Settings for one stack: a file or snippet, how long each case then lasts, and the costs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mrtuner.errors import BadValue, Refused
from mrtuner.failover.predict.client import Client, defaults
from mrtuner.failover.predict.hang_times import Case, Prediction, Situation, predict
from mrtuner.failover.predict.kernel import Kernel, local
from mrtuner.failover.predict.path import Path
from mrtuner.failover.predict.tcp_timers import Keepalive
from mrtuner.failover.predict.timer_wheel import Band
from mrtuner.failover.settings.bounds import Bounds, bounds
from mrtuner.failover.settings.stacks import STACKS, Stack
from mrtuner.units import parse_duration


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What to set, and the result."""

    stack: Stack
    bounds: Bounds
    text: str
    sysctl: str  # empty if the driver sets everything itself
    cases: tuple[Prediction, ...]
    costs: tuple[str, ...]
    unbounded: tuple[str, ...]


def settings(
    name: str,
    within: float | str,
    kernel: Kernel | None = None,
    path: Path = Path(),  # noqa: B008 - frozen
    *,
    hosts: int = 1,
    longest_query: float | str | None = None,
) -> Settings:
    """Return settings that keep every case that can be bounded within `within`.

    Times are seconds or texts such as ``"20s"``. Without a kernel, that of this machine is used.
    The maximum given for a case also holds for a path twice as slow, and for a fresh connection.

    BadValue for an unknown stack; Refused, with the reason, for what is impossible.
    """
    stack = stack_of(name)
    if hosts > 1 and not stack.next_host:
        raise Refused(
            f"{stack.title} does not go on to the next host when one does not answer",
            "Give it one name that moves, or try the hosts in turn in a loop of your own.",
        )
    within, kernel = parse_duration(within), kernel or local()
    longest_query = None if longest_query is None else parse_duration(longest_query)
    limits = bounds(
        within,
        kernel,
        path,
        hosts=hosts,
        attempts=stack.attempts,
        longest_query=longest_query if stack.read_timeout else None,
        cancel_wait=defaults(stack.name).driver.cancel_wait,
    )
    machine = kernel if stack.sets_socket else _applied(limits, kernel)
    client = _configured(stack, limits)
    found = predict(Situation(kernel=machine, client=client, path=path.at_its_worst()))
    cases = tuple(_tried_again(case, stack, limits) for case in found)
    _check(cases, limits)
    return Settings(
        stack=stack,
        bounds=limits,
        text=stack.write(limits),
        sysctl="" if stack.sets_socket else sysctl_file(limits),
        cases=cases,
        costs=tuple(_costs(stack, limits, cases[1])),
        unbounded=tuple(_unbounded(stack, limits, cases)),
    )


def _applied(limits: Bounds, kernel: Kernel) -> Kernel:
    """The kernel with the sysctl file applied."""
    for name, value in limits.sysctls().items():
        if value == 0:
            raise Refused(
                f"not even {name} = 1 ends a hang within {limits.within:g} s on this kernel",
                "Allow a longer time.",
            )
    return limits.applied(kernel)


def stack_of(name: str) -> Stack:
    if name not in STACKS:
        raise BadValue(f"unknown stack {name!r}", f"Use one of {', '.join(STACKS)}.")
    return STACKS[name]


def _configured(stack: Stack, limits: Bounds) -> Client:
    """The client once the snippet is in force."""
    base = defaults(stack.name)
    own = _keepalive(stack, limits)
    said = (
        "connect_timeout", "keepalives_idle", "tcp_user_timeout", "read_timeout", "pool_wait",
        "networkaddress.cache.ttl",
    )  # fmt: skip
    login = limits.connect_timeout * limits.hosts  # as the snippets of pgjdbc say
    return replace(
        base,
        connect_timeout=float(limits.connect_timeout),
        keepalives=True,
        idle=own.idle if own else None,
        interval=own.interval if own else None,
        count=own.count if own else None,
        user_timeout=limits.user_timeout if stack.sets_socket else 0,
        read_timeout=limits.read_timeout or base.read_timeout if stack.read_timeout else None,
        pool_wait=limits.pool_wait if base.pool_wait else None,
        addresses=limits.hosts,
        read_write=stack.refuses_read_only(limits.hosts),
        dns_ttl=limits.dns_ttl,
        dns_cache=limits.dns_ttl if base.dns_cache else 0.0,
        login_timeout=min(login, base.login_timeout) if base.login_timeout else None,
        origin=dict.fromkeys(said, "this advice"),
    )


def _keepalive(stack: Stack, limits: Bounds) -> Keepalive | None:
    """The keepalive of its sockets; None: the kernel's."""
    if stack.keepalive is not None:
        return stack.keepalive(limits)
    return limits.keepalive if stack.sets_socket else None


def _tried_again(case: Prediction, stack: Stack, limits: Bounds) -> Prediction:
    """Add the time of the pool's new attempts, for which the caller waits as well."""
    found_dead = case.case in {Case.IDLE, Case.FROZEN}
    if not (stack.attempts and found_dead and case.span):
        return case
    more = stack.attempts * limits.hosts * limits.connect_timeout
    step = f"the pool's check finds it dead and tries a new connection: {more} s more"
    return replace(case, span=case.span.plus(Band.exactly(more)), steps=(*case.steps, step))


def _check(cases: tuple[Prediction, ...], limits: Bounds) -> None:
    """Raise Refused rather than return settings that would not keep their promise."""
    within = limits.within
    for case in cases[: 4 if limits.read_timeout else 3]:
        endless = case.span is None and case.case is not Case.FROZEN
        if endless or (case.span and case.span.high > within):
            raise Refused(
                f"{case.case.words}: {case.decided_by} does not end it within {within:g} s",
                "Allow a longer time.",
            )


def sysctl_file(limits: Bounds) -> str:
    """A file for /etc/sysctl.d, or for a pod's securityContext."""
    rows = "\n".join(f"{name} = {value}" for name, value in limits.sysctls().items())
    return (
        "# /etc/sysctl.d/90-failover.conf of the client's host, or of its container's network\n"
        "# namespace. Applies to every TCP connection there. To open ones, tcp_keepalive_time\n"
        f"# applies once the timer that runs has ended.\n{rows}\n"
    )


def _costs(stack: Stack, limits: Bounds, idle: Prediction) -> Iterator[str]:
    keepalive = _keepalive(stack, limits) or limits.keepalive
    yield (
        f"a login that takes longer than {limits.connect_timeout} s fails, even if the server is "
        "merely busy"
    )
    if stack.sets_socket:
        yield (
            f"a network outage of {limits.user_timeout / 1000:g} s ends connections in use and "
            "their transactions; so does a server that accepts no data for that long"
        )
    elif idle.span:
        yield (
            f"a network outage of {idle.span.low:.1f} s ends connections in use and their "
            f"transactions; tcp_retries2 = {limits.tcp_retries2} applies to every connection of "
            "that host or container, not only to those to the database"
        )
    yield (
        f"one small packet every {keepalive.idle} s on each idle connection; long queries are not "
        "affected, because the kernel of a live server answers"
    )
    if stack.attempts:
        yield (
            f"{stack.attempts * limits.hosts * limits.connect_timeout} s of the time are reserved "
            "for the new connection that the pool tries before it returns an error"
        )
    if stack.read_timeout and limits.read_timeout:
        yield (
            f"every query longer than {limits.read_timeout} s is aborted, and its connection closed"
        )
    if stack.refuses_read_only(limits.hosts):
        yield "read-only servers are rejected: use another connection string for replicas"


def _unbounded(stack: Stack, limits: Bounds, cases: tuple[Prediction, ...]) -> Iterator[str]:
    """What remains unbounded, and why."""
    cancel = f"{stack.title} has none, so the application must cancel queries itself"
    frozen = "give --longest-query to set one" if stack.read_timeout else cancel
    reasons = {Case.FROZEN: f"needs a limit on each answer; {frozen}", Case.STALE: stack.stale}
    for case in cases:
        if case.span is None or case.span.high > limits.within:
            lasts = "" if case.span is None else f"lasts up to {case.span.high:g} s by default; "
            yield f"{case.case.words}: {lasts}{reasons[case.case]}"
