"""The studio in Chromium: from a stroke to the new heat map and walks on the screen, and from the start to the page.

python benchmarks/studio.py [STROKES]
"""

import re
import shutil
import subprocess
import sys
import time

import numpy as np
from playwright.sync_api import Page, sync_playwright

COLUMNS, ROWS = 21, 11  # of the map of pretrained:two-rooms
WARM = 10  # strokes before the measurement
PAUSE = 400  # milliseconds between single strokes


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    began = time.perf_counter()
    flags = ["studio", "--port", "0", "--no-open"]
    with subprocess.Popen([sys.executable, "-m", "safedsr.cli", *flags], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        address = re.search(r"http://\S+", server.stdout.readline())
        assert address
        print(f"address printed after {time.perf_counter() - began:.1f} s")
        try:
            with sync_playwright() as driver:
                browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
                page = browser.new_page(viewport={"width": 1300, "height": 900})
                opened = time.perf_counter()
                page.goto(address[0])
                page.wait_for_selector("#map")
                print(f"page shown after {time.perf_counter() - opened:.1f} s")
                page.wait_for_selector("#run option", state="attached")
                print(f"map shown after {time.perf_counter() - opened:.1f} s")
                page.wait_for_selector("#shares b", timeout=120_000)
                print(f"first heat map and walks after {time.perf_counter() - opened:.1f} s")
                page.click("#tour-end")
                page.wait_for_timeout(8000)
                for lam in ("trained", "auto"):
                    page.select_option("#lam-mode", lam)
                    _report(f"single strokes, λ {lam}", single(page, count))
                    _report(f"a long stroke, λ {lam}", long(page, count))
                browser.close()
        finally:
            server.terminate()


def single(page: Page, count: int) -> list[float]:
    """Milliseconds of single strokes, each after a pause."""
    rng = np.random.default_rng(0)
    for n in range(WARM + count):
        if n == WARM:
            page.evaluate("() => { studio.times.length = 0; }")
        page.mouse.click(*_place(page, int(rng.integers(COLUMNS)), int(rng.integers(ROWS))))
        page.wait_for_timeout(PAUSE)
        if n % 8 == 7:
            page.click("#reset")
            page.wait_for_timeout(PAUSE)
    return page.evaluate("() => studio.times")


def long(page: Page, count: int) -> list[float]:
    """Milliseconds of the pictures during one long stroke; strokes in between are left out by the page."""
    page.click("#reset")
    page.wait_for_timeout(2000)
    page.evaluate("() => { studio.times.length = 0; }")
    page.mouse.move(*_place(page, 2, 1))
    page.mouse.down()
    for n in range(count):
        page.mouse.move(*_place(page, 2 + n % 17, 1 + n // 17 % 2))
        page.wait_for_timeout(30)
    page.mouse.up()
    page.wait_for_timeout(2000)
    found = page.evaluate("() => studio.times")
    page.click("#reset")
    return found


def _place(page: Page, column: int, row: int) -> tuple[float, float]:
    box = page.locator("#map").bounding_box()
    assert box
    return box["x"] + (column + 0.5) / COLUMNS * box["width"], box["y"] + (row + 0.5) / ROWS * box["height"]


def _report(what: str, times: list[float]) -> None:
    middle, late, worst = np.percentile(times, [50, 95, 100])
    print(
        f"{what}: {len(times)} pictures, median {middle:.0f} ms, 95th percentile {late:.0f} ms, largest {worst:.0f} ms"
    )


if __name__ == "__main__":
    main()
