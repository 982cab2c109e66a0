"""The commands for new costs: certify, adapt."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from safedsr.adapt.config import LEVELS, CertificateConfig, ClimbConfig
from safedsr.cli.environments import EnvFlags, costs_from, environment_of
from safedsr.cli.terminal import TASK_HELP, CostNames, Json, busy, print_json, print_table
from safedsr.errors import Refusal, UserError

if TYPE_CHECKING:
    from safedsr.adapt.certify import Certificate
    from safedsr.adapt.ladder import Adapted, Rung

RunFolder = tyro.conf.Positional[Annotated[Path, tyro.conf.arg(help="A run folder.")]]
Budget = Annotated[str | None, tyro.conf.arg(help="New cost budgets; those of the training if not given.")]
Seed = Annotated[int | None, tyro.conf.arg(help="Seed of the policy; the best one if not given.")]
TaskNumber = Annotated[int, tyro.conf.arg(help=TASK_HELP)]
USUAL = CertificateConfig()
PICTURES = ("before-after.png", "leverage.png")
SAVED_FIRST = ("certificate.json", *PICTURES, "policy.safetensors", "memory.safetensors", "members")
REQUIRE_HELP = "Save only if at least this share of episodes is certified safe."
MEMORY_HELP = (
    "Use no environment at all: search λ and certify on walks through the replay memory. Such a certificate is weaker, "
    "and says what it assumes."
)
MIXTURE_HELP = (
    "Each episode may draw one of two λ, if this gives more return within the budgets. For budgets of the discounted "
    "mean, and where episodes have no goal."
)
WEIGHT_LEVELS = ("cost", "penalty")
WEIGHTS_HELP = (
    "A JSON file for the new w_c and λ alone, for an exported policy, with --level cost or penalty. It is written only "
    "if the certificate passes; if not, the level that is needed is named."
)
LIBRARY_HELP = (
    "A folder with run folders of other agents on the same map. In every state, the best of their policies under the "
    "new costs is taken; each of them alone is tried too. Only cost weights and λ are adapted."
)
LEVEL_HELP = (
    "What to adapt. cost: the cost weights; penalty: also λ; memory: also M, from the replay memory; full: also with "
    "new environment steps; auto: one level after the other, until the certificate passes (without goals: up to memory "
    "at least, for more return)."
)


def certify(
    run: RunFolder,
    costs: CostNames = None,
    budget: Budget = None,
    seed: Seed = None,
    task: TaskNumber = 0,
    as_json: Json = False,
    config: Annotated[CertificateConfig, tyro.conf.arg(name="")] = USUAL,
    where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Simulate a policy and bound how often it reaches the goal within the budget. The exit code is 1 if it fails."""
    from safedsr.adapt.certify import certify_in
    from safedsr.adapt.costs import task_of
    from safedsr.agent import load

    environment = environment_of(run, where)
    agent = load(run, seed, task, environment)
    with busy(f"simulating {run}", quiet=as_json):
        found = certify_in(agent, task_of(agent, costs_from(run, environment, costs, where), budget), config)
    if as_json:
        print_json({"seed": agent.seed, **found.to_dict()})
    else:
        cells = _cells(found)
        print_table(tuple(cells), [tuple(cells.values())], title=f"{found.environment}, seed {agent.seed}")
        print(_explain(found))
    if not found.passed:
        raise Refusal(_verdict(found))


def adapt(
    run: RunFolder,
    out: Annotated[Path | None, tyro.conf.arg(help="New folder for the adapted policy.")] = None,
    costs: CostNames = None,
    level: Annotated[str, tyro.conf.arg(metavar="{cost,penalty,memory,full,auto}", help=LEVEL_HELP)] = "auto",
    budget: Budget = None,
    require: Annotated[float | None, tyro.conf.arg(help=REQUIRE_HELP)] = None,
    seed: Seed = None,
    task: TaskNumber = 0,
    episodes: Annotated[
        int | None, tyro.conf.arg(help="Largest number of episodes for a certificate.")
    ] = USUAL.episodes,
    confidence: Annotated[float, tyro.conf.arg(help="Confidence level of its bounds.")] = USUAL.confidence,
    epsilon: Annotated[float, tyro.conf.arg(help="Probability of a random action.")] = USUAL.epsilon,
    from_memory: Annotated[bool, tyro.conf.arg(help=MEMORY_HELP)] = False,
    mixture: Annotated[bool, tyro.conf.arg(help=MIXTURE_HELP)] = False,
    library: Annotated[Path | None, tyro.conf.arg(help=LIBRARY_HELP)] = None,
    weights_out: Annotated[Path | None, tyro.conf.arg(help=WEIGHTS_HELP)] = None,
    as_json: Json = False,
    spend: Annotated[ClimbConfig, tyro.conf.arg(name="")] = ClimbConfig(),
    where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Adapt a policy to new costs. Save the new policy and its certificate in a new folder."""
    _require_place(out, weights_out, level)
    if mixture and weights_out:
        raise UserError("--weights-out holds one λ and a mixture has two; leave out --mixture or --weights-out")
    environment = environment_of(run, where)
    new = costs_from(run, environment, costs, where)
    if new is None and budget is None:
        example = "--costs square, or --costs FILE.txt for a map of your own"
        if environment:
            example = "--cost-arg name=value, or --cost-fn FILE.py:NAME for another cost function"
        raise UserError(f"no new costs given; add for example {example}; or --budget 2 for another budget alone")
    certificate = CertificateConfig(episodes, confidence, USUAL.require if require is None else require, epsilon)
    from safedsr.agent import load, load_library

    if library and weights_out:
        raise UserError("--weights-out writes the weights of one policy; with --library, give --out DIR")
    agent = load(run, seed, task, environment)
    others = load_library(library, environment) if library else None
    with busy(f"adapting {run}", quiet=as_json):
        how = {"from_memory": from_memory, "mixture": mixture, "library": others}
        found = agent.adapt(new, level, budget, certificate, spend, **how)
        failed = not found.certificate.passed
        needed = None
        if weights_out and failed:
            needed = _needed_level(agent, new, level, budget, certificate, spend, from_memory)
    refused = failed and (require is not None or weights_out is not None)
    if weights_out and not refused:
        _write_weights(found, agent, weights_out)
    if out and not refused:
        from safedsr.figures.adapted import save_adapted

        save_adapted(found, agent, run.name, out)
    _print_adapted(found, agent, as_json)
    if refused:
        raise Refusal("; ".join(filter(None, (_verdict(found.certificate), "nothing was saved", needed))))
    if not as_json:
        for what, where_to in (("adapted policy", out), ("weights", weights_out)):
            if where_to:
                print(f"{what}: {where_to}")


def _require_place(out: Path | None, weights_out: Path | None, level: str) -> None:
    if out is None and weights_out is None:
        raise UserError(
            "nowhere to write; add --out DIR for the policy, or --weights-out FILE.json for its weights alone"
        )
    if out and out.exists() and not _unfinished(out):
        raise UserError(f"{out} is not an empty folder; choose another --out")
    if weights_out and level not in WEIGHT_LEVELS:
        raise UserError(f"level is '{level}'; with --weights-out, give --level cost or penalty: others change M")
    if weights_out and not weights_out.absolute().parent.is_dir():
        raise UserError(f"there is no folder '{weights_out.absolute().parent}'; make it first")


def _unfinished(out: Path) -> bool:
    """Whether a folder is empty, or holds only what an adaptation left that was killed while it saved."""
    from safedsr.runs import storage

    return out.is_dir() and all(e.name in SAVED_FIRST or storage.TEMPORARY.fullmatch(e.name) for e in out.iterdir())


def _needed_level(
    agent: Any,
    new: Any,
    level: str,
    budget: str | None,
    certificate: CertificateConfig,
    spend: ClimbConfig,
    from_memory: bool = False,
) -> str:
    """Says which level passes where a lower one failed. Where every try takes real steps, it names the next one."""
    from safedsr.adapt.ladder import adapt

    if agent.job.environment.host and not from_memory:
        return f"try the next level: --level {LEVELS[LEVELS.index(level) + 1]}"
    for higher in LEVELS[LEVELS.index(level) + 1 : LEVELS.index("full")]:
        if adapt(agent, new, higher, budget, certificate, spend, from_memory=from_memory).certificate.passed:
            way = "--weights-out" if higher in WEIGHT_LEVELS else "--out DIR, and export it again"
            return f"the level '{higher}' is needed and passes: --level {higher} {way}"
    return "no level passes without new environment steps: try --level full --out DIR, or a larger budget"


def _print_adapted(found: "Adapted", agent: Any, as_json: bool) -> None:
    if as_json:
        return print_json(found.to_dict())
    for remark in found.remarks:
        print(f"warning: {remark}")
    print_table(
        ("level", *_cells(found.certificate), "λ", "simulated", "seconds", *_real(found.rungs[0])),
        [
            (
                rung.level,
                *_cells(rung.certificate).values(),
                _lams(rung.agent),
                f"{rung.simulated_steps:,}",
                f"{rung.seconds:.1f}",
                *_real(rung).values(),
            )
            for rung in found.rungs
        ],
        title=found.certificate.environment,
    )
    print(_explain(found.certificate))
    print(_verdict(found.certificate))
    for line in (_unchanged(found, agent), _within_budget(found.certificate), *found.notes):
        if line:
            print(line)


def _unchanged(found: "Adapted", agent: Any) -> str | None:
    """Explains why a policy is the same as before, if it is."""
    if found.level != "cost" or found.agent.task.params is not agent.task.params:
        return None
    return (
        "the policy is the same as before: the level 'cost' changes nothing if the budget alone is new; with --level "
        "penalty, λ is searched for the new budget, and a larger one may allow a shorter way"
    )


def _within_budget(found: "Certificate") -> str | None:
    """Explains costs that remain although the certificate passes; None if there are none."""
    pairs = [(mean, budget) for mean, budget in zip(found.cost, found.budgets, strict=True) if budget > 0]
    if not found.passed or found.terms.on_mean or not any(mean.value > 0 for mean, _ in pairs):
        return None
    costs = ", ".join(f"{mean.value:.2g} of {budget:g}" for mean, budget in pairs)
    return (
        f"an episode may still meet costs, as long as their sum stays within the budget (mean {costs}), so a short way "
        "through costly states is allowed; to avoid them altogether, adapt with --budget 0"
    )


def _real(rung: "Rung") -> dict[str, str]:
    """The steps in the real environment by the names of their columns; none if it is simulated."""
    if rung.real_steps is None:
        return {}
    return {"real steps": f"{rung.real_steps:,}", "of its certificate": f"{rung.certificate_steps:,}"}


def _write_weights(found: "Adapted", agent: Any, path: Path) -> None:
    from safedsr.export.files import weights_of
    from safedsr.runs import storage

    storage.require_own(path, (b'"policy": "',))
    storage.write_json(path, weights_of(found.agent, agent, found.certificate, found.level))


def _lams(agent: Any) -> str:
    """λ, and that of a mixture with its share."""
    other = agent.mixture and f" or {_numbers(agent.mixture.lam)} ({agent.mixture.share:.1%})"
    return _numbers(agent.policy.lam) + (other or "")


def _numbers(lam: Any) -> str:
    return " ".join(f"{value:.2f}" for value in map(float, lam))


def _cells(found: "Certificate") -> dict[str, str]:
    """The numbers of a certificate by the names of their columns."""
    safe, goal, over = found.safe_goal_rate, found.goal_rate, found.violation
    shares = {"safe goal rate": f"{safe.value:.3f} ≥ {safe.bound:.3f}", "goal rate": f"{goal.value:.3f}"}
    if not found.success:
        shares = {"safe episodes": shares["safe goal rate"]}
    over_budget = {"over budget": f"{over.value:.3f} ≤ {over.bound:.3f}"}
    worth = {} if found.terms.goals else {"return": f"{found.reward:.4g}"}
    cost = "mean discounted cost" if found.terms.on_mean else "mean cost"
    costs = {cost: " | ".join(f"{mean.value:.2f} ≤ {mean.bound:.2f}" for mean in found.cost)}
    return {**shares, **over_budget, **worth, **costs, "steps": f"{found.length:.1f}", "episodes": str(found.episodes)}


def _explain(found: "Certificate") -> str:
    budgets = ", ".join(f"{budget:g}" for budget in found.budgets)
    together = ", all of them together" if found.terms.on_mean else ""
    return (
        f"budget {budgets}, ε = {found.epsilon:g}. After ≥ and ≤: one-sided {found.confidence:.0%} confidence bounds "
        f"(rates: Clopper–Pearson, mean costs: Student's t{together})\nassumed: {found.assumes}"
    )


def _verdict(found: "Certificate") -> str:
    safe, word = found.safe_goal_rate, "passes" if found.passed else "fails"
    name = "certificate from memory" if found.source == "memory" else "certificate"
    if found.terms.on_mean:
        pairs = zip(found.cost, found.budgets, strict=True)
        costs = ", ".join(f"{mean.bound:.3f} (budget {budget:g})" for mean, budget in pairs)
        return f"{name} {word}: mean discounted cost ≤ {costs}; mean return {found.reward:.4g}"
    if not found.success:
        return (
            f"{name} {word}: at least {safe.bound:.3f} of all episodes stay within the budget; "
            f"required: {found.require:g}; mean return {found.reward:.4g}"
        )
    return (
        f"{name} {word}: at least {safe.bound:.3f} of all episodes reach the goal within the budget; "
        f"required: {found.require:g}"
    )
