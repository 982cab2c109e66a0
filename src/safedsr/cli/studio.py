"""The command studio: a page in the browser."""

import secrets
import socket
from pathlib import Path
from typing import Annotated

import tyro

from safedsr.errors import UserError

DEFAULT_RUN = Path("pretrained:two-rooms")
PORT = 8420
LOOPBACK = "127.0.0.1"
RUNS_HELP = "Run folders of agents on maps, or pretrained:NAME; a pretrained agent if none is given."
HOST_HELP = "Another address to serve on, so that others can reach the studio; it then wants a token."


def studio(
    runs: tyro.conf.Positional[Annotated[tuple[Path, ...], tyro.conf.arg(help=RUNS_HELP)]] = (),
    port: Annotated[int, tyro.conf.arg(help="Port of the page; 0 takes a free one.")] = PORT,
    open: Annotated[bool, tyro.conf.arg(help="Open the page in the browser.")] = True,
    host: Annotated[str, tyro.conf.arg(help=HOST_HELP)] = LOOPBACK,
    out: Annotated[Path, tyro.conf.arg(help="Folder in which adapted policies are saved.")] = Path("runs"),
) -> None:
    """Paint costs on a map in the browser, and watch the policy adapt."""
    try:
        from safedsr.studio.server import Access, make_app, run_server
    except ImportError as error:
        raise UserError(f"the studio needs {error.name}; install it: pip install 'safedsr[studio]'") from None
    from safedsr.runs.policy import environment_data

    runs = runs or (DEFAULT_RUN,)
    for run in runs:
        environment_data(run)  # raises if there is no policy
    port = _free_port(host, port)
    token = None if host in (LOOPBACK, "localhost") else secrets.token_urlsafe(16)
    query = f"/?token={token}" if token else "/"
    page = f"http://{host}:{port}{query}"
    if token:
        print(f"warning: everyone who can reach {host} and knows the token can use this studio")

    def open_desk():  # JAX is loaded here, while the page is shown already
        from safedsr.studio.desk import Desk

        return Desk(runs, out)

    def ready() -> None:
        print(f"studio: {page} (Ctrl-C ends it)", flush=True)
        if open:
            import webbrowser

            webbrowser.open(page)

    run_server(make_app(open_desk, Access(port, token)), host, port, ready)


def _free_port(host: str, port: int) -> int:
    """The port, if it is free; a free one for 0."""
    if not 0 <= port <= 65535:
        raise UserError(f"port is {port}; give a number from 0 to 65535")
    try:
        with socket.create_server((host, port)) as found:
            return found.getsockname()[1]
    except OSError as error:
        raise UserError(f"cannot serve on {host}:{port}: {error.strerror}; give another --port, or --port 0") from None
