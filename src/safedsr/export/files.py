"""Writes policies and new cost weights for other programs, and checks what was written."""

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from safedsr.adapt.certify import Certificate
from safedsr.errors import UserError
from safedsr.export.portable import Portable, portable
from safedsr.field.controller import Controller
from safedsr.runs import storage
from safedsr.runs.policy import TrainedPolicy

FORMAT = 1
FORMATS = ("onnx", "npz")
CHECKED = 10_000  # observations
CLOSE = 1e-4  # largest relative difference from the values of the agent

Evaluate = Callable[[np.ndarray], tuple[Any, Any, Any]]  # obs -> action, Q, K


class Exported(NamedTuple):
    """What was written."""

    path: Path
    about: dict[str, Any]
    difference: float  # largest relative difference from the values of the agent


MARKS = (b"safedsr", "safedsr".encode("utf-32-le"))  # in every file, so that it may be written again


def export(
    agent: TrainedPolicy, path: str | Path, kind: str | None = None, certificate: Certificate | dict | None = None
) -> Exported:
    """Write a policy as "onnx" or "npz" (default: by the ending of the name) and compare the file with the agent."""
    path = Path(path)
    kind = kind or path.suffix.removeprefix(".")
    if kind not in FORMATS:
        raise UserError(f"format is '{kind}'; possible: {', '.join(FORMATS)}: name the file policy.onnx or policy.npz")
    require_one_lam(agent)
    policy, difference = portable(agent), 0.0
    about = describe(agent, policy, certificate)
    write, evaluate = (_write_onnx, onnx_values) if kind == "onnx" else (_write_npz, npz_values)

    def checked(file: Path) -> None:
        nonlocal difference
        write(file, policy, about)
        difference = compare(agent, evaluate(file))

    storage.require_own(path, MARKS)
    storage.write_atomic(path, checked)
    return Exported(path, about, difference)


def require_one_lam(agent: TrainedPolicy) -> None:
    """Raise if the policy draws one of two λ for each episode: an exported file does not know where episodes begin."""
    if agent.mixture:
        raise UserError(
            "this policy is a mixture of two λ, one of which is drawn for each episode; an exported file has one λ: "
            "adapt without mixture, or export the two agents of agent.parts"
        )


def _write_onnx(path: Path, policy: Portable, about: dict[str, Any]) -> None:
    from safedsr.export.graph import make_model

    path.write_bytes(make_model(policy, about).SerializeToString())


def _write_npz(path: Path, policy: Portable, about: dict[str, Any]) -> None:
    text = json.dumps(about, ensure_ascii=False)
    with path.open("wb") as file:  # given a name, NumPy would add an ending to it
        np.savez(
            file,
            allow_pickle=False,
            steps=np.array(policy.steps),
            policy=np.array(policy.policy),
            about=np.array(text),
            **policy.arrays,
            **policy.weights,
        )


def describe(agent: TrainedPolicy, policy: Portable, certificate: Certificate | dict | None = None) -> dict[str, Any]:
    """What another program has to know about a policy."""
    spec, task, host = agent.job.environment.spec, agent.task, agent.job.environment.host
    bounds = [[float(x) if np.isfinite(x) else None for x in side] for side in spec.bounds]
    scale = next((step.split()[1:] for step in policy.steps if step.startswith("scale")), None)
    return {
        "format": FORMAT,
        "safedsr": metadata.version("safedsr"),
        "algorithm": agent.job.algorithm,
        "environment": agent.job.environment.name,
        "task": task.title,
        "seed": agent.seed,
        "observations": spec.observations,
        "observation_low": bounds[0],
        "observation_high": bounds[1],
        "scaling": {name.partition("_")[0]: _floats(policy.arrays[name]) for name in scale} if scale else None,
        "map_scale": float(task.params.scale) if hasattr(task.params, "scale") else None,
        "actions": spec.actions,
        "action_names": list(spec.action_names),
        "first_action": host.first if host else 0,
        "costs": list(task.cost_names),
        "budgets": list(task.budgets),
        "budget_kind": agent.job.budget_kind,
        "lam": _floats(policy.weights["lam"]) if policy.weights else None,
        "policy": policy.policy,
        "certificate": certificate.to_dict() if isinstance(certificate, Certificate) else certificate,
    }


def weights_of(agent: TrainedPolicy, before: TrainedPolicy, certificate: Certificate, level: str) -> dict[str, Any]:
    """w_c and λ of an adapted agent, for the exported policy of the agent `before`."""
    require_one_lam(agent)
    new, old = portable(agent), portable(before)
    if new.policy != old.policy or len(new.weights["lam"]) != len(old.weights["lam"]):
        raise UserError(
            f"the exported policy has {len(before.task.budgets)} costs and the new task has {len(agent.task.budgets)}; "
            "give equally many, or save the adapted policy with --out and export it"
        )
    return {
        "format": FORMAT,
        "policy": new.policy,
        "task": agent.task.title,
        "costs": list(agent.task.cost_names),
        "budgets": list(agent.task.budgets),
        "level": level,
        "w_c": [_floats(row) for row in new.weights["w_c"]],
        "lam": _floats(new.weights["lam"]),
        "certificate": certificate.to_dict(),
    }


def _floats(array: np.ndarray) -> list[float | None]:
    """Numbers in as few digits as give the same float32; None if they are not finite."""
    return [float(str(x)) if np.isfinite(x) else None for x in np.asarray(array, np.float32)]


def onnx_values(path: Path) -> Evaluate:
    """The function that an ONNX file computes."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns of inputs that have a default
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]

    def values(obs: np.ndarray) -> tuple[Any, Any, Any]:
        found: dict[str, Any] = dict(zip(names, session.run(names, {"observation": obs}), strict=True))
        return found["action"], found["Q"], found.get("K")

    return values


def npz_values(path: Path) -> Evaluate:
    """The function that the NumPy controller computes with a file."""
    controller = Controller(path)

    def values(obs: np.ndarray) -> tuple[Any, Any, Any]:
        q, k = controller.values(obs)
        return controller.act(obs), q, k

    return values


def observations_for(agent: TrainedPolicy, count: int = CHECKED, seed: int = 0) -> np.ndarray:
    """Random observations: uniform within their bounds, or normal like those of the training where there are none."""
    rng, spec = np.random.default_rng(seed), agent.job.environment.spec
    low, high = (np.asarray(side, np.float64) for side in spec.bounds)
    bounded = np.isfinite(low) & np.isfinite(high)
    scale = getattr(agent.policy, "scale", None) or getattr(agent.policy, "obs_scale", None)
    mean, std = np.zeros(spec.observations), np.ones(spec.observations)
    if scale is not None and int(scale.count) > 1:
        mean, std = np.asarray(scale.mean), np.sqrt(np.asarray(scale.squares) / (int(scale.count) - 1))
    size = count, spec.observations
    even = rng.uniform(np.where(bounded, low, 0.0), np.where(bounded, high, 1.0), size)
    return np.where(bounded, even, rng.normal(mean, std, size)).astype(np.float32)


def compare(agent: TrainedPolicy, evaluate: Evaluate) -> float:
    """The largest relative difference of a file from the agent on many observations; raises if it is too large.

    Differences are relative to a value, or to the mean size of such values if it is smaller. Other actions are allowed
    where the scores differ as little.
    """
    obs = observations_for(agent)
    action, q, k = evaluate(obs)
    wanted = agent.values(obs)
    score = np.asarray(wanted.score)
    rows = np.arange(len(obs))
    pairs = [(q, wanted.q), (score[rows, action], score.max(1))]
    if k is not None:
        pairs.append((k, wanted.k))
    found = max(_difference(np.asarray(one), np.asarray(other)) for one, other in pairs)
    if not found <= CLOSE:
        raise UserError(f"the file differs from the agent by {found:.1e} (relative); it is at most {CLOSE:g} otherwise")
    return found


def _difference(one: np.ndarray, other: np.ndarray) -> float:
    if not other.size:
        return 0.0
    size = np.maximum(np.abs(other), max(float(np.abs(other).mean()), 1e-30))
    return float((np.abs(one - other) / size).max())
