"""`mrtuner serve`: the viewer of a history, in the browser."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from mrtuner.cli.common import options, prerequisites, targets, terminal
from mrtuner.cli.common.aws_options import account_options
from mrtuner.cli.history.store_options import place_option
from mrtuner.errors import MrTunerError, Refused, UsageError
from mrtuner.files import read_file

if TYPE_CHECKING:
    import uvicorn

    from mrtuner.aws.session import Account
    from mrtuner.history.remote import RemoteStore
    from mrtuner.history.store.s3 import Place
    from mrtuner.web.app import Agents
    from mrtuner.web.authentication import Access

_LOOPBACK: Final = "127.0.0.1"
#: The packages that showing a history needs.
PACKAGES: Final = ("argon2", "duckdb", "starlette", "uvicorn")


@options.command("serve")
@place_option
@click.option(
    "--host", default=_LOOPBACK, show_default=True, metavar="ADDRESS",
    help="Address to listen on; any but a loopback address needs --password-file and TLS.",
)  # fmt: skip
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8080, show_default=True, metavar="PORT",
    help="Port to listen on; 0 picks a free one.",
)  # fmt: skip
@options.path_option(
    "--password-file", "FILE", "File whose first line is the password that the page asks for."
)
@options.path_option("--tls-cert", "FILE", "Certificate in PEM, with its chain.", exists=True)
@options.path_option("--tls-key", "FILE", "Key of the certificate.", exists=True)
@click.option(
    "--behind-proxy", is_flag=True,
    help="Serve without TLS, because a proxy in front of this server provides it.",
)  # fmt: skip
@options.path_option(
    "--records", "DIR", "Also show the benchmark records below this directory.", exists=True
)
@click.option(
    "--mcp", is_flag=True,
    help="Also answer agents at /mcp, as mrtuner mcp does; they need the password.",
)  # fmt: skip
@targets.config_option
@click.option("--open", "browser", is_flag=True, help="Open the page in the browser.")
@account_options
@options.json_option
def command(
    place: str | None, host: str, port: int, password_file: Path | None,
    tls_cert: Path | None, tls_key: Path | None, behind_proxy: bool, records: Path | None,
    mcp: bool, config: Path | None, browser: bool, account: Account, as_json: bool,
) -> None:  # fmt: skip
    """Show a history in the browser: load, statements, headroom, WAL, I/O, vacuum, locks.

    \b
    Examples:
      mrtuner serve
      mrtuner serve --dir /var/lib/mrtuner --port 8081
      mrtuner serve --records ~/benchmarks
      mrtuner serve --dir s3://company-history/postgres     # what recorders publish
      ssh -L 8080:127.0.0.1:8080 bastion mrtuner serve      # then open http://127.0.0.1:8080/
      mrtuner serve --host 0.0.0.0 --port 443 --password-file /etc/mrtuner/password \\
        --tls-cert /etc/mrtuner/cert.pem --tls-key /etc/mrtuner/key.pem
      mrtuner serve --config fleet.toml                     # plans of statements, on request
      mrtuner serve --password-file /etc/mrtuner/password --mcp --config fleet.toml

    It reads the history and changes nothing. A recorder may write at the same time.
    """
    from mrtuner.history.directory import history_place

    named = history_place(place)
    of_s3 = () if isinstance(named, Path) else ("boto3", "fsspec")
    of_agents = ("mcp",) if mcp else ()
    prerequisites.require(*PACKAGES, *of_s3, *of_agents)
    _refuse_unsafe(host, password_file, (tls_cert, tls_key), behind_proxy=behind_proxy)
    if mcp and password_file is None:
        raise Refused(
            "anyone on this machine could ask the tools of --mcp",
            "Give --password-file FILE, or let the agent start mrtuner mcp itself.",
        )
    from mrtuner.documents import as_builtins
    from mrtuner.web.app import require_page
    from mrtuner.web.document import Serving

    require_page()
    access = None if password_file is None else _access(password_file, behind_proxy=behind_proxy)
    far = behind_proxy or not _is_loopback(host)
    servers = {one.name: one.dsn for one in targets.servers_named((), config).values()}
    agents = _agents(named, servers, far=far) if mcp else None
    with _store(named, account) as store, _listening(host, port) as listener:
        scheme = "https" if tls_cert else "http"
        address = f"{scheme}://{_openable(host)}:{listener.getsockname()[1]}/"
        told = as_builtins(Serving(address=address, directory=str(named)))
        terminal.answer(told, [f"{named} is shown at {address}; Ctrl-C ends it"], as_json)
        if browser:
            click.launch(address)
        with server(
            store, access, records, agents, servers,
            ssl_certfile=tls_cert, ssl_keyfile=tls_key, proxy_headers=behind_proxy,
        ) as found:  # fmt: skip
            found.run(sockets=[listener])


def _refuse_unsafe(
    host: str, password_file: Path | None, tls: tuple[Path | None, Path | None], *,
    behind_proxy: bool,
) -> None:  # fmt: skip
    if (tls[0] is None) != (tls[1] is None):
        raise UsageError("--tls-cert and --tls-key require each other", "Give both, or neither.")
    if password_file is None and not _is_loopback(host):
        raise Refused(
            f"anyone who can reach {host} would see statements and settings",
            "Give --password-file FILE, or listen on 127.0.0.1 and forward a port by ssh.",
        )
    crosses = not (_is_loopback(host) or behind_proxy)
    if password_file is not None and tls[0] is None and crosses:
        raise Refused(
            "the password would cross the network unencrypted",
            "Give --tls-cert and --tls-key, or --behind-proxy if a proxy speaks TLS.",
        )


def _agents(place: Path | Place, servers: Mapping[str, str], *, far: bool) -> Agents:
    """Return what answers agents; from `far` away, they use a host name that is not known here."""
    from mrtuner.agents.server import over_http
    from mrtuner.agents.tools import Places
    from mrtuner.web.app import LOOPBACK, Agents

    history = place if isinstance(place, Path) else None
    app = over_http(Places(servers=servers, history=history))
    return Agents(app=app, hosts=("*",) if far else LOOPBACK)


@contextmanager
def _store(named: Path | Place, account: Account) -> Iterator[Path | RemoteStore]:
    """Yield the store after opening it once, so that its errors are raised now."""
    from mrtuner.history.reading import open_history

    if isinstance(named, Path):
        with open_history(named):
            pass
        yield named
        return
    with terminal.sigterm_as_interrupt(), closing(_on_s3(named, account)) as store:
        with store.opened():
            pass
        yield store


def _on_s3(place: Place, account: Account) -> RemoteStore:
    from mrtuner.aws.session import client
    from mrtuner.history.remote import RemoteStore

    return RemoteStore(place, client("s3", account))


@contextmanager
def server(
    store: Path | RemoteStore, access: Access | None = None, records: Path | None = None,
    agents: Agents | None = None, servers: Mapping[str, str] | None = None, **more: Any,
) -> Iterator[uvicorn.Server]:  # fmt: skip
    """Yield the viewer as a server that is not running yet; the store is closed at the end."""
    import uvicorn

    from mrtuner.web.app import LOOPBACK, app

    # With a password, users come from elsewhere, by a host name that is not known here.
    hosts = LOOPBACK if access is None else ("*",)
    shown = app(store, hosts=hosts, access=access, records=records, agents=agents, servers=servers)
    config = uvicorn.Config(
        shown, log_level="warning", server_header=False, lifespan="off", limit_concurrency=200,
        timeout_keep_alive=30, timeout_graceful_shutdown=5, h11_max_incomplete_event_size=16_384,
        **more,
    )  # fmt: skip
    try:
        yield uvicorn.Server(config)
    finally:
        shown.state.store.close()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _openable(host: str) -> str:
    """Return the host of an address that a browser can open.

    An unspecified address means all of this machine's, so its name stands for it, if it has one.
    """
    try:
        unspecified = ip_address(host).is_unspecified
    except ValueError:
        unspecified = False
    if not unspecified:
        return f"[{host}]" if ":" in host else host
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return "[::1]" if ":" in host else _LOOPBACK
    return name


def _access(path: Path, *, behind_proxy: bool) -> Access:
    from mrtuner.web.authentication import Access, hash_of

    return Access(hashed=hash_of(first_line(path)), proxies=int(behind_proxy))


def first_line(path: Path) -> str:
    """The first line of a file, which is the password; empty if the file is."""
    lines = read_file(path).splitlines()
    return lines[0] if lines else ""


def _listening(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise MrTunerError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            "Name others with --host and --port.",
        ) from None


def show(place: Path) -> None:
    """Show a history on a free port of this machine until Ctrl-C; open it if there is a display."""
    import os

    with _listening(_LOOPBACK, 0) as listener:
        address = f"http://{_LOOPBACK}:{listener.getsockname()[1]}/"
        terminal.print_line()
        terminal.print_line(f"{place} is shown at {address}; Ctrl-C ends it")
        if os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
            click.launch(address)
        with server(place) as found:
            found.run(sockets=[listener])
