"""One tab of the browser: it answers the latest view, and adapts in the background. Older views are left out."""

import asyncio
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from safedsr.adapt.config import CertificateConfig, ClimbConfig
from safedsr.adapt.follow import follow
from safedsr.adapt.ladder import Adapted, Rung
from safedsr.adapt.ladder import adapt as climb
from safedsr.adapt.penalty import search_penalty
from safedsr.agent import Agent
from safedsr.engine.trails import Trails
from safedsr.envs.grid.environment import scene_of
from safedsr.errors import DiskError, UserError, one_line
from safedsr.studio.about import copied, greeting
from safedsr.studio.curves import curves_of
from safedsr.studio.desk import Desk
from safedsr.studio.films import film
from safedsr.studio.messages import Request, View, read
from safedsr.studio.picture import fitted, oracle, painted_task, picture, walk, why_not

MOST_ASKED = 16  # small requests that wait
IDLE = 0.3  # seconds without a stroke before λ is searched, so that painting is not slowed down

Send = Callable[[dict[str, Any]], None]


class Stopped(Exception):
    """The work was stopped, or is no longer wanted."""


class Work:
    """Threads for all tabs: one draws, one adapts, so that painting goes on during an adaptation."""

    def __init__(self) -> None:
        self.drawing = ThreadPoolExecutor(1, "studio-drawing")
        self.adapting = ThreadPoolExecutor(1, "studio-adapting")


def warm_up(desk: Desk, work: Work) -> None:
    """Compile what painting needs while nobody waits for it; errors are told to the first tab."""

    def draw() -> None:
        view = desk.first()
        if view is None:
            return
        agent = desk.trained(view)
        now = fitted(agent, painted_task(agent, view), view)
        picture(now, walk(agent, view), view)
        if not why_not_searched(now):
            work.adapting.submit(search_penalty, now, now.task)

    work.drawing.submit(draw)


class Tab:
    """The state of one connection. `send` may be called in the event loop only."""

    def __init__(self, desk: Desk, work: Work, send: Send) -> None:
        self.desk, self.work, self.send = desk, work, send
        self.latest: Request | None = None
        self.wanted = asyncio.Event()
        self.stop = threading.Event()  # of the adaptation
        self.search: asyncio.Task | None = None
        self.job: asyncio.Task | None = None
        self.drawn: tuple[Request, Agent] | None = None  # the last picture
        self.beside: tuple[Agent, float, Trails] | None = None  # the agent to compare with, ε, and its episodes
        self.found: tuple[Any, Any] = None, None  # agent and λ of the last search
        self.follower: tuple[Agent, Agent, int] | None = None  # an agent, the same with a newer M, and its updates
        self.asked: set[asyncio.Task] = set()
        self.closed = False

    def receive(self, text: str) -> None:
        """Take a message of the page; the answers follow later."""
        request = Request("stop")
        try:
            request = read(text)
            getattr(self, f"_{request.type}")(request)
        except UserError as error:
            self._say(error, request.id)

    def close(self) -> None:
        """The page is gone: nothing is wanted any more."""
        self.closed = True
        self.stop.set()
        self.latest = None
        for task in (self.search, self.job):
            if task:
                task.cancel()

    def _say(self, error: object, number: int = 0) -> None:
        self.send({"type": "error", "id": number, "text": one_line(error)})

    def _open(self, request: Request) -> None:
        def about() -> dict[str, Any]:
            return {**greeting(self.desk.roots, request.view), "adapted": self.desk.certified(request.view.policy)}

        self._later(request, "hello", about)

    def _look(self, request: Request) -> None:
        self.latest = request
        self.wanted.set()

    def _stop(self, request: Request) -> None:
        self.stop.set()

    def _import(self, request: Request) -> None:
        self._later(request, "imported", lambda: self.desk.parsed(request.text, request.view))

    def _shape(self, request: Request) -> None:
        self._later(request, "imported", lambda: self.desk.shape(request.text, request.view))

    def _curves(self, request: Request) -> None:
        def curves() -> dict[str, Any]:
            view, find = request.view, self.desk.roots.find
            found = curves_of(find(view.run), view.task, view.seed)
            return found if view.against is None else {**found, "against": curves_of(find(view.against), 0, None)}

        self._later(request, "curves", curves)

    def _film(self, request: Request) -> None:
        def filmed() -> dict[str, Any]:
            view, trained = request.view, self.desk.trained(request.view)
            now, task = self.desk.shown(view), painted_task(trained, view)
            return {"adaptable": why_not(now), **film(trained, fitted(now, task, view), task, view.epsilon, request.id)}

        self._later(request, "film", filmed, self.work.adapting)

    def _export(self, request: Request) -> None:
        def text() -> dict[str, Any]:
            run = str(self.desk.roots.find(request.view.run))
            return copied(run, scene_of(painted_task(self.desk.trained(request.view), request.view)), request.view)

        self._later(request, "exported", text)

    def _save(self, request: Request) -> None:
        self._later(
            request, "saved", lambda: {"folder": str(self.desk.save(request.view, request.text))}, self.work.adapting
        )

    def _later(
        self, request: Request, kind: str, job: Callable[[], dict[str, Any]], where: ThreadPoolExecutor | None = None
    ) -> None:
        async def run() -> None:
            found = await self._in(where, job, request.id)
            if found is not None:
                self.send({"type": kind, "id": request.id, **found})

        if len(self.asked) >= MOST_ASKED:
            raise UserError("too many requests at once; wait for the answers")
        task = asyncio.ensure_future(run())
        self.asked.add(task)
        task.add_done_callback(self.asked.discard)

    async def _in(self, pool: ThreadPoolExecutor | None, job: Callable[[], Any], number: int) -> Any:
        """The result of a job in a thread; None if it was stopped, or failed and the page was told why."""
        try:
            return await asyncio.get_running_loop().run_in_executor(pool, job)
        except Stopped:
            return None
        except (UserError, DiskError, OSError, MemoryError) as error:
            self._say(error, number)
        except Exception as error:  # a fault of the studio: the page is told, and goes on
            traceback.print_exc()
            self._say(f"the studio failed ({type(error).__name__}: {error}); the terminal has more", number)
        return None

    async def draw(self) -> None:
        """Answer the latest view, for as long as the page is there."""
        while not self.closed:
            await self.wanted.wait()
            self.wanted.clear()
            request, self.latest = self.latest, None
            if request is None:
                continue
            found = await self._in(self.work.drawing, partial(self._picture, request), request.id)
            if found is None:
                continue
            self.drawn = request, found[0]
            self.send(found[1])
            if self.search is None or self.search.done():
                self.search = asyncio.ensure_future(self._improve())

    def _picture(self, request: Request, agent: Agent | None = None) -> tuple[Agent, dict[str, Any]]:
        view = request.view
        trained, base = self.desk.trained(view), self.desk.shown(view)
        updates = 0
        if request.follow and self.follower and self.follower[0] is base:
            _, base, updates = self.follower
        elif not request.follow:
            self.follower = None
        lam = self.found[1] if self.found[0] == _about(view) else None
        agent = agent or fitted(base, painted_task(base, view), view, lam)
        drawn = picture(agent, self._beside(self.desk.beside(view, trained), view), view)
        return agent, {"type": "picture", "id": request.id, "updates": updates, **drawn}

    def _beside(self, agent: Agent, view: View) -> Trails:
        """The episodes of the agent to compare with; painting changes only what they cost."""
        if self.beside is None or self.beside[0] is not agent or self.beside[1] != view.epsilon:
            self.beside = agent, view.epsilon, walk(agent, view)
        return self.beside[2]

    def _searches(self, view: View, agent: Agent) -> bool:
        """Whether λ is searched: costs or budgets are not those for which the shown policy was trained or adapted."""
        if view.lam != "auto" or why_not_searched(agent):
            return False
        base = self.desk.shown(view).task
        return base.params is not agent.task.params or base.budgets != agent.task.budgets

    async def _improve(self) -> None:
        """Search λ, let M learn, or plan, for the picture that was drawn last; again if another was drawn meanwhile."""
        done = None
        while self.drawn and self.drawn[0] is not done and not self.closed:
            done, agent = self.drawn
            learns = done.follow and not why_not_searched(agent)
            searches = self._searches(done.view, agent)
            if not (learns or searches or done.view.oracle):
                return
            if not learns:  # M learns whether or not the hazard has moved on
                await asyncio.sleep(IDLE)
                if self._stale(done):
                    continue
            if learns or searches:
                await self._show_better(done, agent)
            if done.view.oracle and not self._stale(done):
                plan = partial(oracle, agent.task, agent, done.view.epsilon)
                if planned := await self._in(self.work.adapting, plan, done.id):
                    self.send({"type": "oracle", "id": done.id, **planned})

    async def _show_better(self, request: Request, agent: Agent) -> None:
        better = await self._in(self.work.adapting, partial(self._better, request, agent), request.id)
        if better is None or self._stale(request):
            return
        found = await self._in(self.work.drawing, partial(self._picture, request, better), request.id)
        if found is not None and not self._stale(request):
            self.send({**found[1], "searched": True})

    def _stale(self, request: Request) -> bool:
        """Whether the page has asked for another picture since."""
        return self.closed or self.latest is not None or self.drawn is None or self.drawn[0] is not request

    def _better(self, request: Request, agent: Agent) -> Agent:
        def current(what: str, share: float) -> None:
            if self._stale(request):
                raise Stopped

        better, view = agent, request.view
        if request.follow:
            better, done = follow(agent, agent.task, request.id)
            base = self.desk.shown(view)
            before = self.follower[2] if self.follower and self.follower[0] is base else 0
            self.follower = base, better, before + done
        elif self._searches(view, agent):
            better = search_penalty(better, agent.task, view.epsilon, tell=current)[0]
            self.found = _about(view), better.policy.lam
        return better

    def _adapt(self, request: Request) -> None:
        if self.job and not self.job.done():
            raise UserError("an adaptation is running; stop it first")
        self.stop.clear()
        self.drawn = None  # ends a search of λ, which would keep the adaptation waiting
        self.job = asyncio.ensure_future(self._climb(request))

    async def _climb(self, request: Request) -> None:
        loop = asyncio.get_running_loop()

        def send(message: dict[str, Any]) -> None:
            loop.call_soon_threadsafe(self.send, {"id": request.id, **message})

        def job() -> dict[str, Any]:
            return self._adapted(request, send)

        self.send({"type": "progress", "id": request.id, "what": "waiting for its turn", "share": 0.0})
        found = await self._in(self.work.adapting, job, request.id)
        self.send({"type": "adapted", "id": request.id, **(found or {"policy": None})})

    def _adapted(self, request: Request, send: Send) -> dict[str, Any]:
        """Adapt the trained policy; if it is stopped, the best level so far counts."""
        view, rungs = request.view, []
        trained = self.desk.trained(view)
        task = painted_task(trained, view)

        def tell(what: str, share: float) -> None:
            if self.stop.is_set():
                raise Stopped
            send({"type": "progress", "what": what, "share": share})

        def show(rung: Rung) -> None:
            rungs.append(rung)
            send({"type": "rung", **rung.to_dict()})

        certificate = CertificateConfig(require=request.require, epsilon=view.epsilon)
        spend = ClimbConfig(highest="memory")
        try:
            found = climb(trained, task, request.level, None, certificate, spend, show, tell=tell)
        except Stopped:
            if not rungs:
                return {"policy": None, "stopped": True}
            best = max(rungs, key=lambda rung: rung.certificate.rank)
            found = Adapted(best.agent, best.level, best.certificate, tuple(rungs), ())
        name = self.desk.keep(trained, found, view)
        return {"policy": name, "stopped": self.stop.is_set(), **found.to_dict()}


def why_not_searched(agent: Agent) -> bool:
    """Whether an agent has no λ that could be searched, or no costs."""
    return agent.trainer.adaptable is None or agent.experience is None or not agent.task.budgets


def _about(view: View) -> tuple[Any, ...]:
    """Which policy a view is about."""
    return view.run, view.seed, view.task, view.policy, len(view.costs)
