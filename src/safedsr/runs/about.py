"""What a run folder or the folder of a policy says about itself, read without JAX."""

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from safedsr.errors import UserError
from safedsr.runs import storage
from safedsr.runs.folder import is_file, load_config, read_manifest
from safedsr.runs.format1 import upgrade_config
from safedsr.runs.schema import MANIFEST, check_config
from safedsr.runs.shipped import folder_of
from safedsr.validation import in_file, typed

FORMAT, READABLE = 2, (1, 2)
TENSORS, ABOUT = "policy.safetensors", "policy.json"
LIBRARY, MEMBERS = "library.json", "members"  # of a saved library: its file, and the folder with its policies


class MixtureData(TypedDict):
    """A second λ, and the share of episodes that act with it."""

    lam: list[float]
    share: float


class PolicyData(TypedDict):
    """The content of policy.json."""

    best: list[int]
    job: dict[str, Any]
    mixture: NotRequired[MixtureData]


def environment_data(path: str | Path) -> dict[str, Any]:
    """What the folder of a policy, or the first policy of a library, says about its environment."""
    folder = folder_of(path)
    folder, about = read_about(folder / MEMBERS / "0" if is_library(folder) else folder)
    with in_file(folder / ABOUT):
        return check_config(upgrade_config(about["job"]))["environment"]


def job_data(path: str | Path) -> tuple[dict[str, Any], list[int] | None]:
    """The job of a run folder as JSON, and the best seed of each task; None if its training has not finished."""
    folder = folder_of(path)
    if not is_file(folder / ABOUT) and not is_library(folder):
        return load_config(folder), None
    _, about = read_about(folder)
    with in_file(folder / ABOUT):
        return check_config(upgrade_config(about["job"])), about["best"]


def is_library(path: str | Path) -> bool:
    """Whether a folder holds a saved library of policies."""
    return is_file(folder_of(path) / LIBRARY)


def read_about(path: str | Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a policy, and its policy.json."""
    folder = folder_of(path)
    if folder.name in (TENSORS, ABOUT):
        folder = folder.parent
    if not is_file(folder / ABOUT):
        hint = "give a run folder"
        if is_library(folder):
            hint = f"it is a library of policies: give one of them, such as {folder / MEMBERS / '0'}"
        elif is_file(folder / MANIFEST):
            read_manifest(folder)  # raises for a packed folder
            hint = "its training has not finished: continue it with --resume"
        raise UserError(f"{folder} holds no policy ({hint})")
    found = storage.read_json(folder / ABOUT, ["format"])["format"]
    if found not in READABLE:
        raise UserError(f"{folder / ABOUT} has format {found}; this version reads {FORMAT}: upgrade safedsr")
    about = storage.read_json(folder / ABOUT, ["best", "job"])
    with in_file(folder / ABOUT):
        return folder, typed(PolicyData, about, "the policy")
