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
    command = ["npm", "pack", "--silent", "--fetch-retries=1", "--fetch-retry-mintimeout=1000", package]
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as there:
        done = subprocess.run(command, cwd=there, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"npm could not fetch {package}: {done.stderr.strip() or 'is there a network?'}")
        (archive,) = Path(there).glob("*.tgz")
        with tarfile.open(archive) as opened:
            opened.extractall(there, filter="data")
        package_folder, kept = Path(there) / "package", Path(there) / "kept"
        for source in filter(Path.is_file, package_folder.rglob("*")):
            name = source.relative_to(package_folder).as_posix()
            for target in (target for pattern, target in files.items() if fnmatch(name, pattern)):
                (kept / target).mkdir(parents=True, exist_ok=True)
                shutil.copy(source, kept / target)
        try:
            kept.rename(folder)
        except OSError:
            if not folder.exists():  # else another process was faster
                raise
