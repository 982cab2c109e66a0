"""Build the page that tries a policy without a server: docs/try and an exported policy into docs/try/build.

python scripts/make_try_page.py [FOLDER]    (or: make try-page)

ONNX Runtime for the browser is the npm package below, which is fetched with npm and not part of this repository.
"""

import json
import shutil
import sys
from pathlib import Path

import npm_files
import numpy as np
import onnx

import safedsr
from safedsr.agent import Agent
from safedsr.envs.grid.environment import scene_of
from safedsr.envs.grid.layout import Layout

ROOT = Path(__file__).parent.parent
SOURCE, BUILD = ROOT / "docs" / "try", ROOT / "docs" / "try" / "build"
STUDIO = ROOT / "src" / "safedsr" / "studio" / "page"
SHARED = ("studio.css", "icon.svg", "draw.js", "paint.js", "state.js", "wire.js")  # of the studio
RUNTIME = "onnxruntime-web@1.22.0"
PARTS = ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm")  # of its folder dist


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else BUILD
    build_page(folder, safedsr.pretrained("two-rooms"))
    if not (folder / "ort").exists():
        npm_files.fetch(RUNTIME, {f"dist/{part}": "." for part in PARTS}, folder / "ort")
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    print(f"{folder}: {size / 1e6:.1f} MB; to see it: python -m http.server -d {folder} 8421")


def build_page(folder: Path, agent: Agent) -> None:
    """Write everything but the runtime."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in [SOURCE / "index.html", SOURCE / "try.js", *(STUDIO / name for name in SHARED)]:
        shutil.copy(file, folder)
    agent.export(folder / "policy.onnx")
    without_defaults(folder / "policy.onnx")
    weights = fit_of_each_cell(agent)
    weights.astype("<f4").tofile(folder / "fit.bin")
    layout = scene_of(agent.task).layout
    about = {
        "height": layout.walls.shape[0],
        "width": layout.walls.shape[1],
        "raster": layout.raster,
        "walls": np.asarray(layout.walls).astype(int).ravel().tolist(),
        "starts": np.asarray(layout.starts).tolist(),
        "goal": np.asarray(layout.goal).tolist(),
        "scale": float(layout.scale),
        "costs": np.asarray(layout.costs)[0].ravel().tolist(),
        "cost": agent.task.cost_names[0],
        "budget": agent.task.budgets[0],
        "trained_lam": float(agent.policy.lam[0]),
        "trained_weights": np.asarray(agent.policy.learner.weights.w_c)[0].tolist(),
        "features": weights.shape[1],
        **{name: agent.job.environment.settings[name] for name in ("step_mean", "step_std", "step_clip")},
        "most_steps": 200,
    }
    (folder / "policy.json").write_text(json.dumps(about), encoding="utf-8")


def without_defaults(path: Path) -> None:
    """Make w_c and lam inputs without defaults: the runtime of browsers does not let a program replace defaults."""
    model = onnx.load(path)
    kept = [one for one in model.graph.initializer if one.name not in ("w_c", "lam")]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def fit_of_each_cell(agent: Agent) -> np.ndarray:
    """The cost weights [H·W, d] for a cost of 1 in one cell; those for other costs are their weighted sum."""
    layout: Layout = scene_of(agent.task).layout
    shape, found = (1, *layout.walls.shape), []
    for cell in range(layout.walls.size):
        cost = np.zeros(layout.walls.size, np.float32)
        cost[cell] = not np.asarray(layout.walls).ravel()[cell]
        found.append(np.asarray(agent.refit(cost.reshape(shape)).policy.learner.weights.w_c[0]))
    return np.stack(found)


if __name__ == "__main__":
    main()
