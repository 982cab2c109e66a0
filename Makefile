PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: demo studio test test-all check bench docs docs-tables docs-pictures notebooks pretrained gif try-page soak clean

demo: $(INSTALLED)
	$(BIN)/safedsr demo --out demo

studio: $(INSTALLED)
	$(BIN)/safedsr studio

# Work stealing keeps most tests of a file together, so that what they share is mostly made once.
test: $(INSTALLED)
	$(BIN)/pytest -n 2 --dist worksteal

test-all: $(INSTALLED)
	$(BIN)/pytest -n 2 --dist worksteal -m "slow or not slow"

check: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --warnings
	$(BIN)/lint-imports

bench: $(INSTALLED)
	$(BIN)/python benchmarks/env.py
	$(BIN)/python benchmarks/onpolicy.py
	$(BIN)/python benchmarks/adapt.py
	$(BIN)/python benchmarks/dsr.py
	$(BIN)/python benchmarks/latency.py

# The tables and numbers of README.md and docs/ that come from runs, made anew from results/.
docs-tables: $(INSTALLED)
	$(BIN)/python scripts/docs_tables.py

# The documentation site, in site/; npm fetches KaTeX and mermaid for it.
docs: $(INSTALLED)
	$(BIN)/python scripts/make_site.py

# The pictures of docs/concepts, from a pretrained agent, and those of docs/environments.md, from results/.
docs-pictures: $(INSTALLED)
	$(BIN)/python scripts/make_pictures.py
	$(BIN)/python scripts/make_environment_pictures.py

# The notebooks, executed; the site shows the outputs that they store.
notebooks: $(INSTALLED)
	$(BIN)/python -m nbconvert --coalesce-streams --to notebook --execute --inplace docs/notebooks/*.ipynb

pretrained: $(INSTALLED)
	$(BIN)/python scripts/make_pretrained.py

# The film in the README, from the real page; needs Chromium.
gif: $(INSTALLED)
	$(BIN)/python scripts/make_studio_gif.py

# The page that needs no server, in docs/try/build; npm fetches ONNX Runtime for it.
try-page: $(INSTALLED)
	$(BIN)/python scripts/make_try_page.py

# Faults on purpose (kill -9, full disks, two writers): some ten minutes, a table. docs/reliability.md
soak: $(INSTALLED)
	$(BIN)/python benchmarks/soak.py

# One stamp for both commands: nothing is reinstalled until pyproject.toml changes.
$(INSTALLED): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv demo site site-npm site-pages
