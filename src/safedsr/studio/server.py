"""The server of the studio: the page, and one WebSocket for each tab.

It answers requests whose Host it knows, and WebSockets that its own page opened; other sites cannot use it. On an
address that others can reach, it also wants a token.
"""

import asyncio
import contextlib
import hmac
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from starlette.applications import Starlette
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket, WebSocketDisconnect

from safedsr.errors import UserError
from safedsr.studio.about import greeting
from safedsr.studio.messages import MOST_BYTES, read
from safedsr.studio.outbox import Outbox
from safedsr.studio.roots import Roots

PAGE = Path(__file__).parent / "page"
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
MOST_TABS = 32
PAGE_FIRST = 1.0  # seconds that loading waits for a page, because it would make the page wait
PAUSE = 0.3  # seconds before compiling, in which the page shows its map
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Access(NamedTuple):
    """Who may use the server."""

    port: int
    token: str | None = None  # on an address that others can reach

    def known_host(self, connection: HTTPConnection) -> bool:
        """Whether the browser asked for this server by a name of its own, and not by one that leads here."""
        if self.token:
            return True  # its names are not known; the token is what counts
        return connection.headers.get("host", "") in {f"{name}:{self.port}" for name in LOOPBACK}

    def own_page(self, connection: HTTPConnection) -> bool:
        """Whether a WebSocket was opened by the page of this server, with the token if there is one."""
        if connection.headers.get("origin") != f"http://{connection.headers.get('host')}":
            return False
        given = connection.query_params.get("token", "")
        return self.token is None or hmac.compare_digest(given.encode(), self.token.encode())


def make_app(roots: Roots, open_desk: Callable[[], Any], access: Access) -> Starlette:
    """The application; `open_desk` loads JAX, in a thread, while the page and its map are shown already."""
    tabs: set[Any] = set()
    shared: dict[str, asyncio.Future] = {}
    greeted = asyncio.Event()

    async def page(request: Request) -> Response:
        return Response((PAGE / "index.html").read_bytes(), media_type="text/html")

    async def talk(socket: WebSocket) -> None:
        if not (access.known_host(socket) and access.own_page(socket)):
            return await socket.close()  # before it is accepted: 403
        await socket.accept()
        if len(tabs) >= MOST_TABS:
            return await socket.close(1013, f"the studio has {MOST_TABS} tabs already; close some")
        tabs.add(socket)
        try:
            first = None if shared["desk"].done() else await greet(socket, roots)
            greeted.set()
            desk, work = await asyncio.shield(shared["desk"])
            await serve_tab(socket, desk, work, first)
        except (WebSocketDisconnect, KeyError):  # closed, or bytes instead of text
            pass
        finally:
            tabs.discard(socket)

    async def guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
        if not access.known_host(request):
            return PlainTextResponse("the studio does not know this host name\n", 403)
        response = await answer(request)
        response.headers.update(HEADERS)
        return response

    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        shared["desk"] = asyncio.ensure_future(_prepare(open_desk, greeted))
        warming = asyncio.ensure_future(_warm_up(shared["desk"]))
        yield
        warming.cancel()

    return Starlette(
        lifespan=lifespan,
        routes=[
            Route("/", page),
            WebSocketRoute("/talk", talk),
            Mount("/page", StaticFiles(directory=PAGE)),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
    )


async def _prepare(open_desk: Callable[[], Any], greeted: asyncio.Event) -> tuple[Any, Any]:
    """Load JAX and the runs, but let the page and its map come first if they are asked for at once."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(greeted.wait(), PAGE_FIRST)
    return await asyncio.get_running_loop().run_in_executor(None, _prepared, open_desk)


def _prepared(open_desk: Callable[[], Any]) -> tuple[Any, Any]:
    from safedsr.studio.tab import Work

    return open_desk(), Work()


async def _warm_up(prepared: asyncio.Future) -> None:
    """Compile what painting needs, a moment after the first tab could get its map."""
    desk, work = await asyncio.shield(prepared)
    await asyncio.sleep(PAUSE)
    from safedsr.studio.tab import warm_up

    warm_up(desk, work)


async def greet(socket: WebSocket, roots: Roots) -> str | None:
    """Answer the first message before JAX is loaded, if that can be done; else give the message back."""
    text = await socket.receive_text()
    try:
        request = read(text)
        if request.type != "open" or request.view.policy:
            return text
        found = await asyncio.get_running_loop().run_in_executor(None, greeting, roots, request.view)
    except UserError:
        return text  # it is answered later, with the error
    await socket.send_json({"type": "hello", "id": request.id, **found})
    return None


async def serve_tab(socket: WebSocket, desk: Any, work: Any, first: str | None = None) -> None:
    """Talk with one tab until it is closed; `first` is a message that was received already."""
    from safedsr.studio.tab import Tab

    outbox = Outbox()

    async def deliver() -> None:
        while True:
            message = await outbox.get()
            await socket.send_json(message)

    tab = Tab(desk, work, outbox.put)
    helpers = [asyncio.ensure_future(deliver()), asyncio.ensure_future(tab.draw())]
    try:
        while True:
            tab.receive(first or await socket.receive_text())
            first = None
    finally:
        tab.close()
        for helper in helpers:
            helper.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await asyncio.gather(*helpers)


def run_server(app: Starlette, host: str, port: int, ready: Callable[[], None]) -> None:
    """Serve until Ctrl-C; `ready` is called once the page can be opened."""

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(
        app, host, port, log_level="error", ws_max_size=MOST_BYTES, ws_max_queue=8, timeout_graceful_shutdown=1
    )
    Server(config).run()
