"""The command studio: a page in the browser."""

import secrets
import socket
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import tyro

from safedsr.cli.environments import EnvFlags, environment_in
from safedsr.errors import UserError

DEFAULT_RUN = Path("pretrained:two-rooms")
PORT = 8420
LOOPBACK = "127.0.0.1"
RUNS_HELP = "Run folders, folders that hold some, or pretrained:NAME; a pretrained agent if none is given."
HOST_HELP = "Another address to serve on, so that others can reach the studio; it then wants a token."


def studio(
    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(help=RUNS_HELP)]] = (),
    port: Annotated[int, tyro.conf.arg(help="Port of the page; 0 takes a free one.")] = PORT,
    open: Annotated[bool, tyro.conf.arg(help="Open the page in the browser.")] = True,
    host: Annotated[str, tyro.conf.arg(help=HOST_HELP)] = LOOPBACK,
    out: Annotated[Path, tyro.conf.arg(help="Folder in which adapted policies are saved.")] = Path("runs"),
    where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Paint costs on a map in the browser, and watch the policy adapt. Other environments have curves and films."""
    try:
        from safedsr.studio.roots import Roots
        from safedsr.studio.server import Access, make_app, run_server
    except ImportError as error:
        raise UserError(f"the studio needs {error.name}; install it: pip install 'safedsr[studio]'") from None
    roots = Roots(runs or (DEFAULT_RUN,))
    port = _free_port(host, port)
    token = None if host in (LOOPBACK, "localhost") else secrets.token_urlsafe(16)
    query = f"/?token={token}" if token else "/"
    page = f"http://{host}:{port}{query}"
    if token:
        print(f"warning: everyone who can reach {host} and knows the token can use this studio")

    def open_desk():  # JAX is loaded here, while the page is shown already
        from safedsr.studio.desk import Desk

        return Desk(roots, out, partial(_environment, flags=where))

    def ready() -> None:
        print(f"studio: {page} (Ctrl-C ends it)", flush=True)
        if open:
            import webbrowser

            webbrowser.open(page)

    run_server(make_app(roots, open_desk, Access(port, token)), host, port, ready)


def _environment(run: Path, flags: EnvFlags) -> Any:
    """The environment of a run, with the flags' functions; flags for other environments do not concern maps."""
    from safedsr.envs.grid.config import GRID
    from safedsr.runs.about import job_data

    data = job_data(run)[0]["environment"]
    return environment_in(data, EnvFlags() if data["name"] == GRID else flags, str(run))


def _free_port(host: str, port: int) -> int:
    """The port, if it is free; a free one for 0."""
    if not 0 <= port <= 65535:
        raise UserError(f"port is {port}; give a number from 0 to 65535")
    try:
        with socket.create_server((host, port)) as found:
            return found.getsockname()[1]
    except OSError as error:
        raise UserError(f"cannot serve on {host}:{port}: {error.strerror}; give another --port, or --port 0") from None
