"""Files of npm packages, which are fetched when something is built and are not part of this repository."""

import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping
from fnmatch import fnmatch
from pathlib import Path


def fetch(package: str, files: Mapping[str, str], folder: Path) -> None:
    """Make a folder with files of an npm package (name@version): pattern in the package to folder in this folder."""
    if not shutil.which("npm"):
        raise SystemExit(f"npm is missing, which fetches {package}: install Node.js, which has it, and try again")
    with tempfile.TemporaryDirectory() as there:
        done = subprocess.run(["npm", "pack", "--silent", package], cwd=there, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"npm could not fetch {package}: {done.stderr.strip() or 'is there a network?'}")
        (archive,) = Path(there).glob("*.tgz")
        kept = Path(there) / "kept"
        with tarfile.open(archive) as opened:
            opened.extractall(there, filter="data")
        for source in (Path(there) / "package").rglob("*"):
            name = source.relative_to(Path(there) / "package").as_posix()
            for target in (target for pattern, target in files.items() if source.is_file() and fnmatch(name, pattern)):
                (kept / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(source, kept / target)
        shutil.copytree(kept, folder, dirs_exist_ok=True)
