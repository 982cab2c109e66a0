"""The command that writes policies for other programs: export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from safedsr.adapt.config import CertificateConfig
from safedsr.cli.adapt import RunFolder, Seed, TaskNumber
from safedsr.cli.environments import EnvFlags, environment_of
from safedsr.cli.terminal import Json, busy, print_json
from safedsr.errors import UserError

if TYPE_CHECKING:
    from safedsr.agent import Agent

FORMAT_HELP = (
    "onnx: for any ONNX runtime; npz: for the NumPy controller, safedsr/field/controller.py. If not given, the name of "
    "--out decides."
)
CERTIFY_HELP = (
    "Certify the policy, by simulated episodes, if its folder has no certificate of an adaptation at the same ε. In a "
    "Gymnasium environment these are real steps."
)


def export(
    run: RunFolder,
    out: Annotated[Path, tyro.conf.arg(help="The file: policy.onnx or policy.npz.")],
    format: Annotated[Literal["onnx", "npz"] | None, tyro.conf.arg(help=FORMAT_HELP)] = None,
    seed: Seed = None,
    task: TaskNumber = 0,
    certify: Annotated[bool, tyro.conf.arg(help=CERTIFY_HELP)] = True,
    as_json: Json = False,
    config: Annotated[CertificateConfig, tyro.conf.arg(name="")] = CertificateConfig(),
    where: Annotated[EnvFlags, tyro.conf.arg(name="")] = EnvFlags(),
) -> None:
    """Write a policy as one file, ONNX or NumPy, for programs without JAX or Python."""
    if format is None and out.suffix not in (".onnx", ".npz"):
        raise UserError(f"the format of '{out}' is not clear; name it policy.onnx or policy.npz, or give --format")
    if not out.absolute().parent.is_dir():
        raise UserError(f"there is no folder '{out.absolute().parent}'; make it first")
    if format == "onnx" or (format is None and out.suffix == ".onnx"):
        from safedsr.export.graph import need_onnx

        need_onnx()
    from safedsr.agent import load
    from safedsr.export.files import CHECKED
    from safedsr.export.files import export as write

    agent = load(run, seed, task, environment_of(run, where))
    agent.require_single("export")
    with busy(f"exporting {run}", quiet=as_json):
        found = write(agent, out, format, _certificate(run, agent, certify, config))
    if as_json:
        return print_json({"file": str(out), "difference": found.difference, **found.about})
    weights = ", w_c, lam (both have defaults)" if found.about["lam"] else ""
    print(f"inputs: observation{weights}; outputs: action, Q{', K' if weights else ''}")
    print(f"checked on {CHECKED:,} observations: largest relative difference from the agent {found.difference:.1e}")
    print(_verdict(found.about["certificate"]))
    print(f"policy: {out} ({out.stat().st_size / 1000:,.0f} kB)")


def _verdict(found: dict | None) -> str:
    if found is None:
        return "no certificate"
    word, most = "passes" if found["passed"] else "fails", found["violation"]["bound"]
    epsilon = found.get("epsilon", 0.0)
    return f"certificate {word}: at most {most:.4f} of all episodes exceed a budget, at ε = {epsilon:g}"


def _certificate(run: Path, agent: "Agent", certify: bool, config: CertificateConfig) -> dict | None:
    """The certificate that an adaptation wrote, if it is for this ε, or a new one."""
    from safedsr.runs import storage

    kept = run / "certificate.json"
    if kept.is_file():
        found = storage.read_json(kept, ["passed", "violation", "budgets"])
        if found.get("epsilon", 0.0) == config.epsilon:
            return {name: value for name, value in found.items() if name not in ("rungs", "remarks", "notes")}
    return agent.certify(**vars(config)).to_dict() if certify else None
