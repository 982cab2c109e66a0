"""The studio in a real browser: Debian's Chromium, driven by Playwright. Screenshots: $SAFEDSR_SCREENSHOTS."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
if CHROMIUM is None:
    pytest.skip("no chromium: apt-get install chromium runs the tests of the studio's page", allow_module_level=True)
playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
WAIT = 60_000  # milliseconds; machines differ
SIDE = 11  # cells of the map


class Studio:
    """A server of the studio in a process of its own."""

    def __init__(self, out: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.out = out
        self.start()

    def start(self) -> None:
        flags = ["studio", "pretrained:one-room", "--port", str(self.port), "--no-open", "--out", str(self.out)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "safedsr.cli", *flags], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+", line)
        assert found, line
        self.url = found[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Studio]:
    found = Studio(tmp_path_factory.mktemp("studio"))
    yield found
    found.kill()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Any, studio: Studio) -> Iterator[Callable[..., Any]]:
    pages, errors = [], []

    def opened(fragment: str = "", **settings: Any) -> Any:
        page = browser.new_page(reduced_motion="reduce", viewport={"width": 1300, "height": 1000}, **settings)
        pages.append(page)
        page.set_default_timeout(WAIT)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(studio.url + fragment)
        page.wait_for_selector("#shares b")
        return page

    yield opened
    for page in pages:
        page.close()
    assert not errors


def shot(page: Any, name: str) -> None:
    if folder := os.environ.get("SAFEDSR_SCREENSHOTS"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


def drag(page: Any, cells: list[tuple[int, int]]) -> None:
    box = page.locator("#map").bounding_box()
    cell = box["width"] / SIDE
    places = [(box["x"] + (x + 0.5) * cell, box["y"] + (y + 0.5) * cell) for x, y in cells]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=3)
    page.mouse.up()


def safe_shares(page: Any) -> list[float]:
    """The shares of safe episodes before and now, in per cent."""
    return [float(text.removesuffix(" %")) for text in page.locator("#shares b").all_inner_texts()]


def painted(page: Any) -> list[float]:
    return page.evaluate("() => [...studio.state.costs[0].values]")


def wait_until(page: Any, condition: Callable[[], bool]) -> None:
    for _ in range(WAIT // 100):
        if condition():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it did not happen in time")


def test_paint_adapt_certify_and_keep(open_page, studio):
    page = open_page()
    page.click("#tour-end")
    before = page.evaluate("() => studio.picture().now.paths")
    assert safe_shares(page) == [100, 100]
    page.locator("[data-budget]").fill("1")
    drag(page, [(5, 4), (5, 9)])
    wait_until(page, lambda: safe_shares(page)[0] < 50)
    shot(page, "painted")
    assert page.evaluate("() => studio.picture().now.paths") != before
    page.click("[data-level=auto]")
    page.wait_for_selector("#certificate b")
    assert "passes" in page.inner_text("#certificate b")
    assert "Assumed: the simulator is right" in page.inner_text("#certificate")
    wait_until(page, lambda: safe_shares(page)[1] >= 90)
    shot(page, "adapted")
    page.click("#keep summary")
    page.fill("#save-name", "kept")
    page.click("#save")
    wait_until(page, lambda: "Saved" in page.inner_text("#kept"))
    assert (studio.out / "kept" / "policy.safetensors").exists()

    cells = painted(page)
    page.click("#export")
    wait_until(page, lambda: page.input_value("#text") != "")
    page.click("#clear")
    assert not any(painted(page))
    page.click("#undo")
    assert painted(page) == cells
    page.click("#redo")
    page.click("#import")
    wait_until(page, lambda: any(painted(page)))
    assert painted(page) == cells
    page.wait_for_timeout(500)
    other = open_page(page.evaluate("() => location.hash"), color_scheme="dark")
    assert painted(other) == cells
    shot(other, "dark")


def test_with_the_keyboard_alone(open_page):
    page = open_page()
    page.focus("#map")
    assert sum(painted(page)) > 0
    page.keyboard.press("e")
    page.keyboard.press("Space")
    assert painted(page)[5 * SIDE + 5] == 0
    assert "row 6, column 6, cost 0" in page.inner_text("#spoken")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("b")
    page.keyboard.press("Enter")
    assert painted(page)[4 * SIDE + 5] == 1
    page.keyboard.press("Control+z")
    page.keyboard.press("Control+z")
    assert painted(page)[5 * SIDE + 5] == 1
    page.focus("[data-level=cost]")
    page.keyboard.press("Enter")
    page.wait_for_selector("#certificate b")


def test_a_hazard_moves_and_the_agent_follows(open_page):
    page = open_page()
    page.locator("[data-budget]").fill("1")
    page.select_option("#brush", "2")
    cells = painted(page)
    page.click("[data-tool=hazard]")
    drag(page, [(2, 8), (7, 8)])
    assert page.evaluate("() => studio.state.path.length") == 6
    page.check("#oracle")
    wait_until(page, lambda: "% safe" in page.inner_text("#oracle-text"))
    page.click("#play")
    wait_until(page, lambda: re.search(r"M: [1-9]\d* updates", page.inner_text("#play-text")) is not None)
    assert painted(page) == cells  # the hazard is not painted for good
    assert re.search(r"Mean of \d+ moves: \d+", page.inner_text("#play-text"))
    shot(page, "hazard")
    page.click("#play")
    page.click("#forget")
    assert page.is_disabled("#play")


def test_other_sites_cannot_talk_to_the_studio_and_tabs_are_independent(browser, open_page, studio):
    page = open_page()
    drag(page, [(2, 2), (4, 2)])
    cells = painted(page)
    other = open_page()
    assert painted(other) != cells
    other.click("#clear")
    assert painted(page) == cells
    stranger = browser.new_page()
    stranger.goto("data:text/html,<title>another site</title>")
    heard = stranger.evaluate(
        """(port) => new Promise((done) => {
            const socket = new WebSocket(`ws://127.0.0.1:${port}/talk`);
            socket.onopen = () => done("open"); socket.onerror = () => done("refused");
        })""",
        studio.port,
    )
    stranger.close()
    assert heard == "refused"


def test_shapes_layers_and_curves(open_page):
    page = open_page()
    page.click("#clear")
    page.click("[data-tool=diamond]")
    drag(page, [(3, 3), (7, 7)])
    assert sum(painted(page)) == 13  # |x| + |y| ≤ 2
    page.click("[data-tool=disc]")
    page.click("#clear")
    drag(page, [(3, 3), (7, 7)])
    assert sum(painted(page)) == 21
    page.select_option("#shape", "square")
    wait_until(page, lambda: sum(painted(page)) > 21)
    for layer in ("q", "k", "occupancy", "leverage"):
        page.click(f"[data-layer={layer}]")
        wait_until(page, lambda: " to " in page.inner_text("#scale-text"))
    page.click("#curves-box summary")
    wait_until(page, lambda: "no training curves" in page.inner_text("#curves"))


def test_a_narrow_screen_has_no_sideways_scrolling(open_page):
    page = open_page()
    page.set_viewport_size({"width": 360, "height": 700})
    wait_until(page, lambda: page.evaluate("() => document.documentElement.scrollWidth") <= 360)
    shot(page, "narrow")


def test_after_the_server_was_killed_the_page_goes_on(open_page, studio):
    page = open_page()
    drag(page, [(2, 9), (4, 9)])
    cells = painted(page)
    studio.kill()
    wait_until(page, lambda: "connect" in page.inner_text("#status"))
    studio.start()
    wait_until(page, lambda: "ms" in page.inner_text("#status") or "searched" in page.inner_text("#status"))
    assert painted(page) == cells
