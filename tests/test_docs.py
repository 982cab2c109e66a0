import importlib
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parent.parent / "docs"
NAMES = sorted(set(re.findall(r"`(safedsr\.[\w.]+)`", (DOCS / "paper-map.md").read_text(encoding="utf-8"))))


@pytest.mark.parametrize("name", NAMES)
def test_paper_map_names_exist(name):
    module, _, attribute = name.rpartition(".")
    assert hasattr(importlib.import_module(module), attribute)


def test_paper_map_names_every_numbered_equation_of_the_method():
    text = (DOCS / "paper-map.md").read_text(encoding="utf-8")
    missing = [n for n in (8, *range(11, 18)) if f"Eq. ({n})" not in text]
    assert not missing


def test_diagrams_name_what_their_modules_have():
    text = (DOCS / "diagrams.md").read_text(encoding="utf-8")
    found = re.findall(r"((?:`\w+`[\w ,]*?)+),? in \[\w+\.py\]\(([^)]+)\)", text)
    assert len(found) > 15
    for names, target in found:
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"def {name}\b|\b{name}=", (DOCS / target).read_text(encoding="utf-8")), (
                f"{name} in {target}"
            )


def test_links_between_documents_lead_somewhere():
    root = DOCS.parent
    for page in [root / "README.md", *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
