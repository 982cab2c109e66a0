"""Trains the agents that come with the package and writes src/safedsr/runs/pretrained: `make pretrained`.

Each takes one to two minutes on one core. card.json says how an agent was trained and what it reaches.
"""

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import safedsr
from safedsr.cli.display import progress_bar
from safedsr.engine.evaluate import evaluate
from safedsr.runs import storage
from safedsr.runs.folder import read_manifest
from safedsr.runs.shipped import FILES, FOLDER

EPISODES = 10_000
AGENTS: dict[str, dict[str, Any]] = {
    "one-room": {"environment": "one-room", "costs": "diamond", "budget": 5, "steps": 100_000},
    "two-rooms": {"environment": "two-rooms", "costs": "diamond", "budget": 5, "steps": 200_000},
}


def make(name: str) -> None:
    """Train one agent, evaluate it with ε = 0, and write its folder."""
    settings = {"algorithm": "safedsr-plus", **AGENTS[name]}
    with tempfile.TemporaryDirectory() as work, progress_bar(name) as show:
        run = Path(work) / "run"
        agent = safedsr.train(**settings, seeds=(0,), out=run, on_chunk=show)
        manifest = read_manifest(run)
        card = {
            "settings": {**settings, "seed": 0},
            "versions": manifest["versions"],
            "commit": manifest["commit"],
            "device": manifest["device"],
            "epsilon": 0.0,
            "evaluation": evaluate(agent, episodes=EPISODES).to_dict(),
        }
        storage.write_json(run / "card.json", card)
        folder = FOLDER / name
        folder.mkdir(parents=True, exist_ok=True)
        for file in FILES:
            shutil.copyfile(run / file, folder / file)
    size = sum((folder / file).stat().st_size for file in FILES)
    print(f"{folder}: {size / 1e6:.1f} MB, safe goal rate {card['evaluation']['safe_goal_rate']['value']:.3f}")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or AGENTS:
        make(chosen)
