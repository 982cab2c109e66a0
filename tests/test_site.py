"""The documentation site: pages and links, the notebooks, and the built site in a browser without a network."""

import json
import re
import shutil
import threading
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import make_site
import matplotlib.pyplot as plt
import npm_files
import pytest

ROOT = Path(__file__).parent.parent
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
NAV = re.findall(r"[\w/-]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2])


def test_every_page_is_in_the_navigation_once():
    pages = {page.relative_to(ROOT / "docs").with_suffix(".md").as_posix() for page in (ROOT / "docs").rglob("*.md")}
    pages |= {f"notebooks/{notebook.stem}.md" for notebook in NOTEBOOKS}
    assert sorted(NAV) == sorted(pages | set(make_site.TOP.values()))


def test_links_to_files_lead_to_pages_that_show_them_and_links_to_folders_become_names():
    readme, page = ROOT / "README.md", ROOT / "docs" / "guides" / "adapt.md"
    sources, shown = {readme: Path("/pages/index.md"), page: Path("/pages/guides/adapt.md")}, {}
    text = "[a](../../README.md#x) [`b`](../../src/safedsr/agent.py) [c](../../results) [d](https://e.f) [g](#h)"
    made = make_site.linked(text, page, sources, shown)
    assert made == "[a](../index.md#x) [`b`](../files/src/safedsr/agent.py.md) c [d](https://e.f) [g](#h)"
    assert shown == {ROOT / "src/safedsr/agent.py": Path("/pages/files/src/safedsr/agent.py.md")}


def test_without_npm_one_line_says_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SystemExit, match=r"^npm is missing, which fetches katex@1: install Node\.js"):
        npm_files.fetch("katex@1", {"LICENSE": "."}, tmp_path / "katex")
    assert not (tmp_path / "katex").exists()


@pytest.mark.usefixtures("compile_quickly")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(notebook, monkeypatch):
    plt.switch_backend("Agg")
    monkeypatch.setattr(plt, "show", lambda: None)
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict = {}
    for cell in cells:
        assert not [out for out in cell["outputs"] if out["output_type"] == "error"]
        exec("".join(cell["source"]), names)
    if notebook.stem == "first-steps":
        assert not names["agent"].certify(names["new"], episodes=100).passed
        assert names["found"].certificate.passed and len(names["figure"].axes) == 3
        plt.close(names["figure"])
    else:
        assert names["moved"].certificate.passed
        assert names["journey"](names["moved"].agent) != names["journey"](names["agent"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    missing = [name for name in ("zensical", "mkdocstrings", "nbconvert") if not find_spec(name)]
    if missing:
        pytest.skip(f"no {', '.join(missing)}: pip install 'safedsr[docs]'")
    folder = tmp_path_factory.mktemp("docs")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    (folder / "src").symlink_to(ROOT / "src")
    try:
        return make_site.build(folder)
    except SystemExit as error:
        if "npm" not in str(error):
            raise
        pytest.skip(str(error))


class Page(HTMLParser):
    """The links of a page and the places in it that links may lead to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


def dead_links(site: Path) -> list[str]:
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html") if path.name != "404.html"}
    dead = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if not parts.scheme and not parts.netloc:
                target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
                target = target / "index.html" if target.is_dir() else target
                known = pages[target].ids if target in pages else None
                if not target.exists() or (
                    parts.fragment and known is not None and unquote(parts.fragment) not in known
                ):
                    dead.append(f"{path.relative_to(site)}: {link}")
    return dead


def test_a_dead_link_is_found(tmp_path):
    (tmp_path / "a.html").write_text('<a href="b.html#x">1</a><a href="b.html#y">2</a><img src="c.png"><p id="x">')
    (tmp_path / "b.html").write_text('<p id="x"></p><a href="https://example.org/gone">3</a><a href="#z">4</a>')
    assert sorted(dead_links(tmp_path)) == ["a.html: b.html#y", "a.html: c.png", "b.html: #z"]


def test_the_site_has_no_dead_link_and_the_licences_of_what_it_carries(site):
    assert not dead_links(site)
    for name in ("katex", "mermaid"):
        assert "MIT" in (site / "npm" / name / "LICENSE").read_text(encoding="utf-8")
    assert "certify" in (site / "api" / "agent.html").read_text(encoding="utf-8")


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


VISITED = {  # page: formulas and diagrams at least; and further pages that have some
    "concepts/successor-features.html": (10, 1),
    "concepts/ladder.html": (0, 1),
    "concepts/certificate.html": (3, 0),
    "diagrams.html": (0, 4),
    "notebooks/first-steps.html": (0, 0),
    "api/agent.html": (0, 0),
    "index.html": (0, 0),
}


def drawn(site: Path) -> list[str]:
    """The pages with formulas or diagrams, which scripts draw in the browser."""
    texts = {path.relative_to(site).as_posix(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    marks = 'class="arithmatex"', 'class="mermaid"'
    return [path for path, text in sorted(texts.items()) if any(mark in text for mark in marks)]


def test_the_site_works_in_a_browser_without_a_network(site):
    if CHROMIUM is None:
        pytest.skip("no chromium: apt-get install chromium runs the test of the site in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: pip install playwright")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base = f"http://127.0.0.1:{server.server_port}/"
    wrong: list[str] = []
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.route(
            "**/*", lambda way: way.continue_() if way.request.url.startswith((base, "blob:", "data:")) else way.abort()
        )
        page.on("requestfailed", lambda request: wrong.append(f"{page.url} asks for {request.url}"))
        page.on(
            "response", lambda answer: answer.ok or answer.status == 304 or wrong.append(f"{page.url}: {answer.url}")
        )
        page.on("pageerror", lambda error: wrong.append(f"{page.url}: {error}"))
        # diagrams are drawn into shadow roots, which are closed to scripts otherwise
        page.add_init_script(
            "const attach = Element.prototype.attachShadow;"
            "Element.prototype.attachShadow = function () { return attach.call(this, { mode: 'open' }); };"
        )
        assert {path for path, least in VISITED.items() if any(least)} <= set(drawn(site))
        for path in dict.fromkeys((*drawn(site), *VISITED)):
            formulas, diagrams = VISITED.get(path, (0, 0))
            page.goto(base + path, wait_until="networkidle")
            assert page.locator("article h1").count() == 1, path
            if diagrams:
                page.locator("div.mermaid svg").nth(diagrams - 1).wait_for(timeout=20_000)
                assert page.locator("div.mermaid svg .node").count() >= 5 * diagrams
                assert page.locator("pre.mermaid").count() == 0
            assert page.locator(".katex").count() >= formulas and page.locator(".katex-error").count() == 0
            assert page.locator(".arithmatex:not(:has(.katex))").count() == 0, path
            assert page.evaluate("[...document.images].every((image) => image.naturalWidth > 0)"), path
        page.keyboard.press("Control+k")
        page.keyboard.type("certificate")
        page.get_by_role("link", name="certificate").first.wait_for(timeout=20_000)
        browser.close()
    server.shutdown()
    server.server_close()
    assert not wrong
