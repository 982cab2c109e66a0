"""Films of episodes: the map, the path and Q − λ·K, or an environment's own pictures; several agents side by side."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from safedsr.adapt.maps import value_maps
from safedsr.engine.record import Recorded
from safedsr.envs.environment import Task
from safedsr.envs.grid.gym import draw_frame
from safedsr.envs.grid.layout import Layout
from safedsr.errors import UserError
from safedsr.figures.files import MARK
from safedsr.figures.maps import PATH
from safedsr.figures.style import BUDGET
from safedsr.runs.policy import TrainedPolicy
from safedsr.runs.storage import make_folder, require_own, write_atomic

WIDTH, MOST_PIXELS = 480, 32  # width of a panel; side of a cell
LINE, MARGIN, GAP = 18, 6, 16  # pixels: height of a line of text, around it, between agents
MOST_FRAMES, PAUSE = 150, 1.0  # frames of an episode; seconds for which its last frame stays
ENDINGS = (".gif", ".mp4")


class Watched(NamedTuple):
    """An agent in a film: its title and its episodes in a task."""

    title: str
    agent: TrainedPolicy
    task: Task
    episodes: list[Recorded]


def frames_of(watched: Sequence[Watched], rate: int) -> Iterator[Image.Image]:
    """The frames of all episodes, one after the other, with all agents side by side."""
    panels = [_Panel(one) for one in watched]
    for number in range(len(watched[0].episodes)):
        steps = [len(one.episodes[number].ret) - 1 for one in watched]
        stride = max(-(-max(steps) // MOST_FRAMES), 1)
        times = [*range(0, max(steps), stride), *[max(steps)] * (1 + int(PAUSE * rate))]
        for time in times:
            yield _beside([panel.draw(number, min(time, last)) for panel, last in zip(panels, steps, strict=True)])


def save_film(frames: Iterator[Image.Image], path: Path, rate: int) -> Path:
    """Write a film as GIF or MP4."""
    if path.suffix.lower() not in ENDINGS:
        raise UserError(f"cannot write a film as '{path.name}'; possible endings: {', '.join(ENDINGS)}")
    make_folder(path.parent)
    require_own(path, (MARK.encode(),))
    if path.suffix.lower() == ".mp4":
        write_atomic(path, lambda file: _save_mp4(frames, file, rate))
        return path
    first, *rest = [frame.quantize(256, dither=Image.Dither.NONE) for frame in frames]  # a GIF has 256 colours
    how = {"save_all": True, "append_images": rest, "duration": round(1000 / rate), "loop": 0, "comment": MARK}
    write_atomic(path, lambda file: first.save(file, **how))
    return path


def find_ffmpeg() -> str:
    """The program that writes MP4; raises if there is none."""
    if found := shutil.which("ffmpeg"):
        return found
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError:
        raise UserError(
            "an MP4 needs ffmpeg, which is not installed: pip install 'safedsr[video]', or choose a name that ends in "
            ".gif"
        ) from None
    return get_ffmpeg_exe()


def _save_mp4(frames: Iterator[Image.Image], path: Path, rate: int) -> Path:
    pictures = [np.asarray(frame) for frame in frames]
    height, width = (size // 2 * 2 for size in pictures[0].shape[:2])  # the format asks for even sizes
    command = [find_ffmpeg(), "-y", "-loglevel", "error", "-f", "rawvideo", "-pix_fmt", "rgb24"]
    command += ["-s", f"{width}x{height}", "-r", str(rate), "-i", "-", "-pix_fmt", "yuv420p"]
    command += ["-metadata", f"comment={MARK}", str(path)]
    data = b"".join(np.ascontiguousarray(picture[:height, :width]).tobytes() for picture in pictures)
    done = subprocess.run(command, input=data, capture_output=True)
    if done.returncode:
        raise UserError(f"ffmpeg could not write {path}: {done.stderr.decode(errors='replace').strip()}")
    return path


class _Panel:
    """Draws one agent at one moment of an episode."""

    def __init__(self, watched: Watched) -> None:
        self.watched = watched
        layout = watched.task.params
        self._values = None
        if isinstance(layout, Layout):
            self._pixels = max(min(WIDTH // layout.walls.shape[1], MOST_PIXELS), 1)
            self._map = Image.fromarray(draw_frame(layout, None, self._pixels))
            self._values, self._caption = _draw_values(watched.agent.changed(task=watched.task), self._map.size)

    def draw(self, number: int, time: int) -> Image.Image:
        """The state after `time` steps of an episode."""
        found = self.watched.episodes[number]
        if self._values is None:
            return _below(self._lines(number, time), [_fitted(found.pictures[time])])
        assert found.positions is not None
        path = found.positions[: time + 1] * self._pixels
        pictures = [_with_path(picture, path, self._pixels) for picture in (self._map, self._values)]
        return _below(self._lines(number, time), [pictures[0], self._caption, pictures[1]])

    def _lines(self, number: int, time: int) -> list[tuple[str, str]]:
        """The text above the picture, with the colour of each line."""
        found, task, terms = self.watched.episodes[number], self.watched.task, self.watched.agent.job.terms
        word = "discounted cost" if terms.on_mean else "cost"
        last = time == len(found.ret) - 1
        lines = [(self.watched.title, "black")]
        goal = ", goal reached" if terms.success and last and found.success else ""
        lines.append((f"episode {number + 1}, step {time}, return {found.ret[time]:.2f}{goal}", "black"))
        for name, cost, budget in zip(task.cost_names, found.cost[time], task.budgets, strict=True):
            over = cost > np.float32(budget)
            text = f"{word} ({name}) {cost:g} of {budget:g}{': over the budget' if over else ''}"
            lines.append((text, BUDGET if over else "black"))
        return lines


def _draw_values(agent: TrainedPolicy, size: tuple[int, int]) -> tuple[Image.Image, str]:
    """The score of the greedy action as a heat map, and its caption."""
    from matplotlib import colormaps

    found = value_maps(agent)
    score = found.score
    low, high = float(np.nanmin(score)), float(np.nanmax(score))
    shades = colormaps["cividis"]((score - low) / max(high - low, 1e-9))[..., :3]
    shades[np.isnan(score)] = 60 / 255  # walls
    name = "score" if found.k is None else "Q − λ·K"
    picture = Image.fromarray((shades * 255).round().astype(np.uint8))
    caption = f"{name} of the greedy action: {low:.2f} (dark) to {high:.2f}"
    return picture.resize(size, Image.Resampling.NEAREST), caption


def _with_path(picture: Image.Image, path: np.ndarray, pixels: int) -> Image.Image:
    """A copy with the path so far and the agent at its end."""
    scale = 2  # drawn at twice the size, so that lines are smooth
    large = picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)
    draw, points, radius = ImageDraw.Draw(large), [tuple(p) for p in (path * scale).tolist()], pixels * scale / 3
    if len(points) > 1:
        draw.line(points, fill="white", width=3 * scale, joint="curve")
        draw.line(points, fill=PATH, width=2 * scale, joint="curve")
    x, y = points[-1]
    draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=PATH, outline="white", width=scale)
    found = large.resize(picture.size, Image.Resampling.BOX)
    ImageDraw.Draw(found).rectangle((0, 0, found.width - 1, found.height - 1), outline="#3c3c3c")
    return found


def _fitted(picture: np.ndarray) -> Image.Image:
    """An environment's own picture, at most as wide as a panel."""
    image = Image.fromarray(picture)
    if image.width <= WIDTH:
        return image
    return image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    from matplotlib.font_manager import findfont

    return ImageFont.truetype(findfont("DejaVu Sans"), size)  # it has Greek letters


def _below(lines: Sequence[tuple[str, str]], parts: Sequence[Image.Image | str]) -> Image.Image:
    """Lines of text, then pictures and captions below each other."""
    font, width = _font(13), max(WIDTH, *(part.width for part in parts if isinstance(part, Image.Image)))
    heights = [LINE + MARGIN if isinstance(part, str) else part.height for part in parts]
    image = Image.new("RGB", (width, LINE * len(lines) + 2 * MARGIN + sum(heights)), "white")
    draw, y = ImageDraw.Draw(image), MARGIN
    for text, color in lines:
        while font.getlength(text) > width - 2 * MARGIN:
            text = text[:-2] + "…"
        draw.text((MARGIN, y), text, fill=color, font=font)
        y += LINE
    y += MARGIN
    for part, height in zip(parts, heights, strict=True):
        if isinstance(part, str):
            draw.text((MARGIN, y + MARGIN // 2), part, fill="black", font=font)
        else:
            image.paste(part, (0, y))
        y += height
    return image


def _beside(panels: Sequence[Image.Image]) -> Image.Image:
    width, height = sum(panel.width for panel in panels) + GAP * (len(panels) - 1), max(p.height for p in panels)
    image, x = Image.new("RGB", (width, height), "white"), 0
    for panel in panels:
        image.paste(panel, (x, 0))
        x += panel.width + GAP
    return image
