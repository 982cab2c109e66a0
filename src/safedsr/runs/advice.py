"""Remarks on a job: settings that leave too few steps to learn, fairer baselines, budgets that were not kept."""

from collections.abc import Sequence

import numpy as np

from safedsr.agents.onpolicy.config import PRESETS, REPAIRABLE, REPAIRED, OnPolicyConfig
from safedsr.core.exploration import epsilon_at
from safedsr.runs.folder import Run
from safedsr.runs.job import Job
from safedsr.runs.metrics import LATE, iqm, within

MANY = 3  # times the share of episodes that the rule of λ lets exceed the budget
UPDATES = 3  # of a policy; a run with as few or fewer hardly learns


def remarks_on(job: Job) -> list[str]:
    """Warnings about the length of a run."""
    steps, agent = job.train.steps, job.agent
    if isinstance(agent, OnPolicyConfig):
        epoch = agent.steps_per_epoch
        if UPDATES * epoch < steps:
            return []
        shorter = next(n for n in range(max(steps // 50, agent.batch_size), steps + 1) if steps % n == 0)
        return [
            f"an epoch has {epoch:,} steps and the run {steps:,}, so the policy is updated {_times(steps // epoch)}; "
            f"train longer, or set steps_per_epoch to {shorter}"
        ]
    found, end = [], agent.epsilon.span[1]
    if end > steps and agent.epsilon.epsilon_start != agent.epsilon.epsilon_end:
        last = float(epsilon_at(steps, agent.epsilon))
        found.append(
            f"ε falls until step {end:,} and is still {last:.2f} at the end of {steps:,} steps; train longer, or set "
            f"epsilon_to to {steps // 5}"
        )
    if job.num_costs and agent.multiplier.begins >= steps:
        found.append(
            f"λ is tuned from step {agent.multiplier.begins:,} on and the run ends at {steps:,}; train longer, or set "
            f"penalty_start to {steps // 5}"
        )
    return found


def notes_on(job: Job) -> list[str]:
    """What a user of a baseline should know at its start."""
    fair = all(getattr(job.agent, name, value) == value for name, value in PRESETS[REPAIRED].items())
    if job.algorithm not in REPAIRABLE or fair:
        return []
    return [
        f"{job.algorithm} has OmniSafe's formulas here, with their mistakes, to be compared with OmniSafe "
        f"(docs/algorithms/onpolicy.md); a fair baseline has --preset {REPAIRED}"
    ]


def advice(job: Job) -> list[str]:
    """All remarks, as lines for a terminal."""
    return [*(f"warning: {line}" for line in remarks_on(job)), *(f"note: {line}" for line in notes_on(job))]


def without_end(run: Run) -> list[str]:
    """A note if no episode of a run ended, so that nothing is known of its returns and costs."""
    if len(run.episodes["end_step"]):
        return []
    return ["no episode has ended in this run; train again with a limit of its steps, such as --time-limit 1000"]


def budgets_not_kept(job: Job, run: Run) -> list[str]:
    """Notes on tasks whose budget no λ kept at the end of the training."""
    tuning, on_mean = getattr(job.agent, "multiplier", None), job.terms.on_mean
    if tuning is None or not (on_mean or tuning.rule in ("chance", "share")):
        return []
    found = []
    for index, task in enumerate(job.tasks):
        late = [one.cost[one.end_step > LATE * job.train.steps] for one in run.by_seed(index)]
        late = [cost for cost in late if len(cost)]
        above = _means_above(late, task.budgets) if on_mean else _often_above(late, task.budgets, tuning.chance)
        if above:
            found.append(
                f"{task.title}: no λ tried keeps the budget; at the end {above}. The policies had "
                f"ε = {job.agent.epsilon.epsilon_end:g}; 'safedsr certify' tells how one does at the ε of its use. A "
                "larger budget or fewer random actions may be needed"
            )
    return found


def _often_above(costs: Sequence[np.ndarray], budgets: Sequence[float], chance: float) -> str:
    """Words if clearly more episodes [n, J] of the seeds exceed a budget than the rule of λ aims at."""
    kept = np.array([within(cost, budgets).mean() for cost in costs])
    if not len(kept) or 1 - iqm(kept) <= MANY * chance:
        return ""
    share = f"{1 - iqm(kept):.2f} of the episodes exceed it (IQM over seeds)"
    return f"{share}, and the best seed keeps it in {kept.max():.2f}"


def _means_above(costs: Sequence[np.ndarray], budgets: Sequence[float]) -> str:
    """Words if in most seeds the mean cost of episodes [n, J] is above a budget by more than two standard errors."""
    above = [(c.mean(0) - 2 * c.std(0) / np.sqrt(len(c)) > np.asarray(budgets)).any() for c in costs]
    if 2 * sum(above) <= len(above):
        return ""
    means = iqm(np.array([c.mean(0) for c in costs]))
    shown = " | ".join(f"{mean:.3g} with a budget of {b:g}" for mean, b in zip(means, budgets, strict=True))
    return (
        f"the mean discounted cost of an episode is {shown} (IQM over seeds), above it in {sum(above)} of {len(above)}"
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
