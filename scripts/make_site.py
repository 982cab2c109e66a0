"""Build the documentation site into site/: `make docs`.

Zensical builds the pages of mkdocs.yml. This script prepares them in site-pages/: README.md, CHANGELOG.md,
CONTRIBUTING.md, docs/ and the notebooks, with links that lead somewhere inside the site. A link to a file of the
repository leads to a page that shows the file; a link to a folder becomes its name. KaTeX and mermaid are npm packages,
fetched once into site-npm/.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import npm_files

ROOT = Path(__file__).resolve().parent.parent
NPM = ROOT / "site-npm"
TOP = {"README.md": "index.md", "CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
PACKAGES = {  # which files of which package; the file of a licence is in the site, too
    "katex@0.16.22": {
        "dist/katex.min.*": ".",
        "dist/contrib/auto-render.min.js": ".",
        "dist/fonts/*.woff2": "fonts",
        "LICENSE": ".",
    },
    "mermaid@12.3.0": {"dist/mermaid.min.js": ".", "LICENSE": "."},
}
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<path>[^)#:\s]+)(?P<anchor>#[^)\s]*)?\)")
THOUSANDS = re.compile(r"(?<=\d) (?=\d{3}\b)")  # of a number in a table, which must not be broken there
GENERATED = re.compile(r"<!-- (?:= [^>]*?|end) -->")  # marks of docs_tables.py
LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".yml": "yaml"}


def main() -> None:
    site = build(ROOT)
    print(f"{site}: to see it: python -m http.server -d {site.name} 8422")


def build(root: Path) -> Path:
    """Build the site of the mkdocs.yml in a folder, into its folder `site`."""
    prepare(root / "site-pages")
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "-f", str(root / "mkdocs.yml")]
    if subprocess.run(command, cwd=root, env=os.environ | {"NO_COLOR": "1"}).returncode:
        raise SystemExit("Zensical could not build the site; its messages are above")
    return root / "site"


def prepare(folder: Path) -> None:
    """Write all that Zensical reads."""
    shutil.rmtree(folder, ignore_errors=True)
    sources = {ROOT / name: folder / page for name, page in TOP.items()}
    for source in sorted((ROOT / "docs").rglob("*")):
        inside = source.relative_to(ROOT / "docs")
        if source.is_file() and inside.parts[0] != "try":
            sources[source] = folder / (inside.with_suffix(".md") if source.suffix == ".ipynb" else inside)
    shown: dict[Path, Path] = {}  # files of the repository that pages link to
    for source, target in sources.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.suffix == ".md":
            text = notebook(source, target) if source.suffix == ".ipynb" else source.read_text(encoding="utf-8")
            lines = linked(GENERATED.sub("", text), source, sources, shown).splitlines()
            whole = [THOUSANDS.sub("\N{NO-BREAK SPACE}", line) if line.startswith("|") else line for line in lines]
            target.write_text("\n".join(whole) + "\n", encoding="utf-8")
        else:
            shutil.copy(source, target)
    for source, target in shown.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(file_page(source), encoding="utf-8")
    for package, files in PACKAGES.items():
        if not (NPM / package).exists():
            npm_files.fetch(package, files, NPM / package)
        shutil.copytree(NPM / package, folder / "npm" / package.partition("@")[0])


def linked(text: str, source: Path, sources: dict[Path, Path], shown: dict[Path, Path]) -> str:
    """A text whose links lead to pages of the site."""
    here = sources[source].parent
    folder = sources[ROOT / "README.md"].parent

    def link(found: re.Match) -> str:
        path = (source.parent / found["path"]).resolve()
        if (path / "index.md").exists():
            path /= "index.md"
        if path.is_dir():
            return found["text"]
        if not path.exists():
            return found[0]  # a picture of a notebook
        if path not in sources:
            inside = path.relative_to(ROOT).as_posix().lstrip(".")  # Zensical leaves hidden folders out
            shown[path] = folder / "files" / f"{inside}.md"
        target = os.path.relpath(sources.get(path) or shown[path], here)
        return f"[{found['text']}]({target}{found['anchor'] or ''})"

    return LINK.sub(link, text)


def file_page(path: Path) -> str:
    """A page that shows a file of the repository; the search leaves it out."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    if path.suffix != ".md":
        text = f"# {name}\n\n````{LANGUAGES.get(path.suffix, 'text')}\n{text}\n````\n"
    return f"---\ntitle: {name}\nsearch:\n  exclude: true\n---\n\n{text}"


def notebook(source: Path, target: Path) -> str:
    """A notebook with its stored outputs as a page; pictures lie beside it."""
    from nbconvert import MarkdownExporter

    text, more = MarkdownExporter().from_filename(str(source))
    for name, data in more["outputs"].items():
        picture = f"{source.stem}-{name}"
        (target.parent / picture).write_bytes(data)
        text = text.replace(f"({name})", f"({picture})")
    return text


if __name__ == "__main__":
    main()
