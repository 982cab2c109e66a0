"""Film the real page of the studio for the README: docs/images/studio.gif. Needs Chromium and Playwright.

python scripts/make_studio_gif.py    (or: make gif)
"""

import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

OUT = Path(__file__).parent.parent / "docs" / "images" / "studio.gif"
COLUMNS, ROWS = 21, 11  # of the map of pretrained:two-rooms
SIZE, WIDTH = {"width": 1280, "height": 960}, 800  # of the page, and of the film
COLOURS, DURATION, LAST = 224, 140, 2500  # milliseconds of a frame, and of the last one
MOST_BYTES = 2_000_000
STROKES = [[(5, 0), (5, 3)], [(15, 0), (15, 3)]]  # over the way of the trained agent, in columns and rows
POINTER = """() => {
    const dot = document.createElement("div");
    Object.assign(dot.style, {position: "fixed", width: "22px", height: "22px", borderRadius: "50%", zIndex: 9,
        border: "3px solid #fff", background: "#14202ecc", pointerEvents: "none", transform: "translate(-50%, -50%)"});
    document.body.append(dot);
    addEventListener("pointermove", (e) => { dot.style.left = `${e.clientX}px`; dot.style.top = `${e.clientY}px`; });
}"""


class Film:
    """Pictures of a page, one after the other."""

    def __init__(self, page: Page) -> None:
        self.page, self.frames = page, []

    def take(self, count: int = 1) -> None:
        """Take some pictures of the page as it is."""
        for _ in range(count):
            picture = Image.open(io.BytesIO(self.page.screenshot())).convert("RGB")
            self.frames.append(picture.resize((WIDTH, round(picture.height * WIDTH / picture.width))))

    def wait(self, condition: str, most: int = 60) -> None:
        """Film until a condition holds; of a long wait, some frames are enough."""
        for number in range(600):
            if self.page.evaluate(condition):
                return
            if number < most:
                self.take()
            self.page.wait_for_timeout(100)
        raise SystemExit(f"it did not happen: {condition}")

    def save(self, path: Path) -> None:
        """Write a GIF in which all frames have the same colours."""
        sample = Image.new("RGB", (WIDTH, 3 * self.frames[0].height))
        for place, frame in enumerate((self.frames[0], self.frames[len(self.frames) // 2], self.frames[-1])):
            sample.paste(frame, (0, place * frame.height))
        palette = sample.quantize(COLOURS)
        first, *rest = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
        times = [DURATION] * len(rest) + [LAST]
        first.save(path, save_all=True, append_images=rest, duration=times, loop=0, optimize=True)


def act(page: Page, film: Film) -> None:
    """Paint over the way of the agent, then adapt."""
    box = page.locator("#map").bounding_box()
    assert box
    film.take(4)
    for stroke in STROKES:
        places = [((x + 0.5) / COLUMNS * box["width"], (y + 0.5) / ROWS * box["height"]) for x, y in stroke]
        (x, y), (u, v) = [(box["x"] + a, box["y"] + b) for a, b in places]
        page.mouse.move(x, y)
        film.take()
        page.mouse.down()
        for step in range(1, 5):
            page.mouse.move(x + (u - x) * step / 4, y + (v - y) * step / 4)
            page.wait_for_timeout(150)
            film.take()
        page.mouse.up()
        page.wait_for_timeout(500)
        film.take(3)
    button = page.locator("[data-level=auto]").bounding_box()
    assert button
    page.mouse.move(button["x"] + button["width"] / 2, button["y"] + button["height"] / 2)
    film.take(2)
    page.click("[data-level=auto]")
    film.wait("() => document.querySelector('#certificate b') !== null", most=12)
    page.wait_for_timeout(1500)
    film.take(8)


def main() -> None:
    command = [sys.executable, "-m", "safedsr.cli", "studio", "--port", "0", "--no-open"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server, sync_playwright() as driver:
        try:
            assert server.stdout
            address = re.search(r"http://\S+", server.stdout.readline())
            assert address
            browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport=SIZE, color_scheme="light")  # type: ignore[arg-type]
            page.goto(address[0])
            page.wait_for_selector("#shares b", timeout=120_000)
            page.click("#tour-end")
            page.evaluate(POINTER)
            page.wait_for_timeout(6000)  # compiles what an adaptation needs
            film = Film(page)
            act(page, film)
            browser.close()
        finally:
            server.terminate()
    film.save(OUT)
    size = OUT.stat().st_size
    print(f"{OUT}: {len(film.frames)} frames, {size / 1e6:.2f} MB")
    if size > MOST_BYTES:
        raise SystemExit(f"the film is larger than {MOST_BYTES / 1e6:g} MB; lower WIDTH or COLOURS")


if __name__ == "__main__":
    main()
