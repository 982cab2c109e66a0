"""The page that tries a policy without a server: its data, and the page itself if ONNX Runtime was fetched for it."""

import shutil
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import jax.numpy as jnp
import make_try_page
import numpy as np
import pytest

import safedsr
from safedsr.envs.grid.config import GridConfig
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.paths import episode_paths

BUILT = make_try_page.BUILD / "ort"


@pytest.fixture(scope="module")
def agent() -> safedsr.Agent:
    return safedsr.pretrained("one-room")


@pytest.fixture(scope="module")
def page_folder(agent, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("try")
    make_try_page.build_page(folder, agent)
    return folder


def painted() -> np.ndarray:
    costs = np.zeros((1, 11, 11), np.float32)
    costs[0, 3:, 4:7] = 2.5
    return costs


def test_the_fit_of_painted_costs_is_the_sum_of_the_fits_of_cells(agent, page_folder):
    cells = np.fromfile(page_folder / "fit.bin", "<f4").reshape(121, -1)
    wanted = np.asarray(agent.refit(painted()).policy.learner.weights.w_c[0])
    np.testing.assert_allclose(painted().ravel() @ cells, wanted, rtol=1e-3, atol=1e-4 * np.abs(wanted).max())


@pytest.mark.skipif(not BUILT.is_dir(), reason="ONNX Runtime for the browser is not there: make try-page fetches it")
def test_the_page_walks_as_the_library_does_without_noise(agent, page_folder):
    from test_studio_browser import CHROMIUM, playwright, shot, wait_until

    def again(page) -> None:
        page.locator("#lam").fill("40")
        page.locator("#lam").fill("50")
        wait_until(page, lambda: page.evaluate("() => !tried.busy()"))

    shutil.copytree(BUILT, page_folder / "ort", dirs_exist_ok=True)
    serve = partial(_Quiet, directory=str(page_folder))
    server = ThreadingHTTPServer(("127.0.0.1", 0), serve)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1200, "height": 850}, reduced_motion="reduce")
        page.goto(f"http://127.0.0.1:{server.server_port}/")
        wait_until(page, lambda: page.evaluate("() => window.tried?.walks().length && !tried.busy()"))
        assert page.inner_text("#now-share").startswith("10 of 10 walks safe")
        page.evaluate("() => { tried.map.step_std = 0; }")
        again(page)
        np.testing.assert_allclose(walk_of(page), way(agent.refit(scene_of(agent.task).layout.costs)), atol=1e-3)
        page.evaluate("(cells) => { tried.state.costs[0].values.set(cells); }", painted().ravel().tolist())
        again(page)
        np.testing.assert_allclose(walk_of(page), way(agent.refit(painted())), atol=1e-3)
        shot(page, "try")
        browser.close()
    server.shutdown()
    server.server_close()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def walk_of(page) -> np.ndarray:
    return np.array(page.evaluate("() => tried.walks()[0].points")).reshape(-1, 2)


def way(agent: safedsr.Agent) -> np.ndarray:
    """The episode of an agent if every step has the mean length."""
    layout = scene_of(agent.task).layout
    config = GridConfig(**{**agent.job.environment.settings, "step_std": 0.0, "time_limit": 200})

    def best(state):
        return jnp.argmax(agent.values_of(agent.policy, state.pos / layout.scale).score)

    return episode_paths(best, layout, [0.0], config)[0]
