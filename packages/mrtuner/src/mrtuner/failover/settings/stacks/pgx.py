"""pgx, with a dialer that sets what Go's own does not."""

from __future__ import annotations

from mrtuner.failover.settings.bounds import Bounds
from mrtuner.failover.settings.stacks.stack import Stack


def write(limits: Bounds) -> str:
    """The configuration of a pool, in Go, for every release of pgx 5.

    pgxpool checks whether a connection that was idle is alive. That check is bounded by the
    deadline of Acquire and the user timeout; PingTimeout only exists since 5.8.
    """
    keepalive = limits.keepalive
    return f"""\
// import "golang.org/x/sys/unix"; Linux only
config, err := pgxpool.ParseConfig("postgres://app@{",".join(limits.names)}/shop?target_session_attrs=read-write")
if err != nil {{
	return err
}}
config.ConnConfig.ConnectTimeout = {limits.connect_timeout} * time.Second
config.ConnConfig.DialFunc = (&net.Dialer{{
	KeepAliveConfig: net.KeepAliveConfig{{
		Enable:   true,
		Idle:     {keepalive.idle} * time.Second,
		Interval: {keepalive.interval} * time.Second,
		Count:    {keepalive.count},
	}},
	Control: func(_, _ string, c syscall.RawConn) (err error) {{
		failed := c.Control(func(fd uintptr) {{
			err = unix.SetsockoptInt(
				int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, {limits.user_timeout})
		}})
		return errors.Join(failed, err)
	}},
}}).DialContext
// pgx 5.8 and later: config.PingTimeout = {limits.validation} * time.Second finds a dead one sooner
// every pool.Acquire: ctx, cancel := context.WithTimeout(ctx, {limits.pool_wait}*time.Second)
{_deadline(limits)}"""


def _deadline(limits: Bounds) -> str:
    seconds = limits.read_timeout
    if seconds is None:
        return "// every query: a context with a deadline for the longest allowed query\n"
    return f"// every query: ctx, cancel := context.WithTimeout(ctx, {seconds}*time.Second)\n"


STACK = Stack(
    name="pgx", title="pgx", file="your program", write=write,
    sets_socket=True, read_timeout=True, read_write=True,
    verified="verified with pgx 5.12.0 on Go 1.26; compiles with 5.0 and later; needs Go 1.23",
)  # fmt: skip
