"""The studio in Chromium: from a stroke to the new heat map and walks on the screen, start-up, and memory.

python benchmarks/studio.py                      # some minutes
python benchmarks/studio.py --strokes 20         # quick
python benchmarks/studio.py --minutes 60         # also paints for an hour, and prints the server's memory

The times of strokes are measured by the page itself, from the pointer event to the drawn picture.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from playwright.sync_api import Browser, Page, sync_playwright

COLUMNS, ROWS = 21, 11  # of the map of pretrained:two-rooms
WARM = 10  # strokes before the measurement
PAUSE = 400  # milliseconds between single strokes
WAIT = 120_000
CHOOSE_LAM = "(lam) => { const s = document.getElementById('lam-mode'); s.value = lam; s.onchange({target: s}); }"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--strokes", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=0.0)
    flags = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} cores, load {load:.1f} before the start")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        with (
            tempfile.TemporaryDirectory() as empty,
            started(browser, "without compiled programs", empty),
        ):
            pass
        with started(browser, "with compiled programs in the cache") as (page, server):
            page.click("#tour-end")
            page.wait_for_timeout(8000)
            for lam in ("trained", "auto"):
                page.evaluate(CHOOSE_LAM, lam)
                report(f"single strokes, λ {lam}", single(page, flags.strokes))
                report(f"a long stroke, λ {lam}", long(page, flags.strokes))
            if flags.minutes:
                paint_on(page, server, flags.minutes)
        browser.close()


@contextmanager
def started(browser: Browser, what: str, cache: str | None = None) -> Iterator[tuple[Page, int]]:
    """Start the studio, print how long it takes, and give the page and the number of the server's process."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "safedsr.cli", "studio", "--port", "0", "--no-open"]
    env = {**os.environ, **({"JAX_COMPILATION_CACHE_DIR": cache} if cache else {})}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as server:
        try:
            assert server.stdout
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address
            marks = {"address": time.perf_counter() - began}
            page = browser.new_page(viewport={"width": 1300, "height": 900}, reduced_motion="reduce")
            page.goto(address[0])
            marks["page"] = time.perf_counter() - began
            page.wait_for_function("() => window.studio?.state.costs.length > 0", timeout=WAIT)
            marks["map, ready to paint"] = time.perf_counter() - began
            page.wait_for_selector("#shares b", timeout=WAIT)
            marks["first heat map and walks"] = time.perf_counter() - began
            print(f"start {what}: " + ", ".join(f"{name} {seconds:.1f} s" for name, seconds in marks.items()))
            yield page, server.pid
            page.close()
        finally:
            server.terminate()


def single(page: Page, count: int) -> list[float]:
    """Milliseconds of single strokes, each after a pause."""
    rng = np.random.default_rng(0)
    for n in range(WARM + count):
        if n == WARM:
            page.evaluate("() => { studio.times.length = 0; }")
        page.mouse.click(*place(page, int(rng.integers(COLUMNS)), int(rng.integers(ROWS))))
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
    page.mouse.move(*place(page, 2, 1))
    page.mouse.down()
    for n in range(count):
        page.mouse.move(*place(page, 2 + n % 17, 1 + n // 17 % 2))
        page.wait_for_timeout(30)
    page.mouse.up()
    page.wait_for_timeout(2000)
    found = page.evaluate("() => studio.times")
    page.click("#reset")
    return found


def paint_on(page: Page, server: int, minutes: float) -> None:
    """Paint at random for some time, and print the memory of the server and of the page's objects."""
    rng, began, strokes = np.random.default_rng(1), time.perf_counter(), 0
    for part in range(7):
        print(f"after {part * minutes / 6:.0f} minutes and {strokes} strokes: server {resident(server):.0f} MB")
        while part < 6 and time.perf_counter() - began < 60 * minutes * (part + 1) / 6:
            page.mouse.click(*place(page, int(rng.integers(COLUMNS)), int(rng.integers(ROWS))))
            page.wait_for_timeout(60)
            strokes += 1
            if strokes % 50 == 0:
                page.click("#clear")


def resident(process: int) -> float:
    """Megabytes of memory of a process."""
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    assert found
    return int(found[1]) / 1024


def place(page: Page, column: int, row: int) -> tuple[float, float]:
    """The middle of a cell on the page."""
    box = page.locator("#map").bounding_box()
    assert box
    return box["x"] + (column + 0.5) / COLUMNS * box["width"], box["y"] + (row + 0.5) / ROWS * box["height"]


def report(what: str, times: list[float]) -> None:
    """Print the percentiles of some times."""
    middle, late, worst = np.percentile(times, [50, 95, 100])
    print(
        f"{what}: {len(times)} pictures, median {middle:.0f} ms, 95th percentile {late:.0f} ms, largest {worst:.0f} ms"
    )


if __name__ == "__main__":
    main()
