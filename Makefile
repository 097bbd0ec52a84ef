# Two commands are enough: `make quickstart` to see it work, `make test` to check a change.
# Paths are relative and every cache stays in the tree, so folders with spaces and a read-only home are fine.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help install dev quickstart test lint imports types unit docs examples bench fuzz soak release-check test-all-pythons clean

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
WORKERS ?= auto
# Each worker starts with tests that stand together, which share what is made once for a file.
PARALLEL := -n $(WORKERS) --maxprocesses 8 --dist worksteal
CASES ?= 10000
KILLS ?= 100
PY := .venv/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check

export FEWNODE_CACHE ?= $(CURDIR)/.cache/fewnode
export MPLCONFIGDIR ?= $(CURDIR)/.cache/matplotlib
# Relative on purpose: pip splits this variable at spaces. It also binds the isolated build of the package itself.
export PIP_CONSTRAINT := constraints.txt
ifneq ($(shell test -w "$$HOME" && echo yes),yes)
export PIP_NO_CACHE_DIR := 1
endif

help:
	@echo "make install     .venv with the base install"
	@echo "make quickstart  install, then classify nodes of the bundled graph"
	@echo "make test        install the development extras, then ruff, the import rule, mypy, pytest, the docs, the examples"
	@echo "make docs        build the documentation into site/, strictly"
	@echo "make fuzz        damaged files of every kind, CASES=10000 new ones"
	@echo "make soak        commands killed at random and at every write, KILLS=100 times"
	@echo "make bench       print speed and memory of the hot paths"
	@echo "make release-check     build, check and install the package, and run the quickstart from it"
	@echo "make test-all-pythons  pytest under every supported Python this machine has"
	@echo "make clean       remove .venv and .cache"

# The stamps make a second call install nothing; editing either file below installs again.
.venv/base.stamp: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "fewnode needs Python 3.11 or newer; call make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing fewnode into .venv (the first time takes a few minutes: torch is large)"
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

# The quickstart's page has figures: matplotlib. What texts and the label page need is there to be tried next.
.venv/report.stamp: .venv/base.stamp
	$(PIP) --quiet --editable '.[report,text,label]'
	@touch $@

.venv/dev.stamp: .venv/base.stamp
	@echo "Installing the development extras"
	$(PIP) --editable '.[dev]'
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then $(PIP) --quiet --editable '.[browser]'; \
	  else echo "NO BROWSER: the page of \`fewnode label\` will not be tested; install chromium to test it"; fi
	@touch $@

install: .venv/base.stamp

dev: .venv/dev.stamp

quickstart: .venv/report.stamp
	$(PY) examples/quickstart.py

# The documentation is built by a test (tests/test_site.py), as strictly as by `make docs`.
test: lint types unit examples

lint: dev imports
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

imports: dev
	.venv/bin/lint-imports --no-logo --cache-dir .cache/imports

types: dev
	$(PY) -m mypy

# One thread per worker: the workers already fill the cores, and tiny solves crawl when threads compete.
# Compiled tests are kept in __pycache__ whatever the environment says: compiling them anew takes each worker 6 s.
unit: dev
	PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(PY) -m pytest -q $(PARALLEL) --cov=fewnode

docs: dev
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

# The page of the quickstart is part of the quickstart.
examples: dev
	@for example in $(filter-out %_page.py,$(wildcard examples/*.py)); do echo "$$example"; $(PY) "$$example" || exit 1; done

fuzz: dev
	FEWNODE_FUZZ_CASES=$(CASES) OMP_NUM_THREADS=1 $(PY) -m pytest -q $(PARALLEL) tests/fuzz

soak: dev
	OMP_NUM_THREADS=1 $(PY) scripts/soak.py --kills $(KILLS)

bench: install
	@for benchmark in benchmarks/*.py; do echo "$$benchmark"; $(PY) "$$benchmark" || exit 1; done

# The quickstart runs in another folder, so that only the installed wheel can be what it imports.
release-check: dev
	rm -rf dist .cache/release
	$(PY) -m build --outdir dist
	$(PY) -m twine check --strict dist/*
	$(PYTHON) -m venv .cache/release
	.cache/release/bin/python -m pip install --disable-pip-version-check --quiet dist/*.whl
	cd .cache/release && bin/python -c 'import fewnode; assert "site-packages" in fewnode.__file__, fewnode.__file__'
	cd .cache/release && bin/fewnode train probe wordnet --n-way 5 --k-shot 3 --out model && bin/fewnode evaluate model
	cd .cache/release && bin/python ../../examples/quickstart.py

test-all-pythons:
	@for v in 3.11 3.12 3.13; do \
	  if ! python$$v -c '' 2>/dev/null; then echo "Python $$v: no python$$v on the PATH"; continue; fi; \
	  echo "Python $$v"; \
	  python$$v -m venv .cache/python$$v && \
	  .cache/python$$v/bin/python -m pip install --disable-pip-version-check --quiet --editable '.[dev]' && \
	  OMP_NUM_THREADS=1 .cache/python$$v/bin/python -m pytest -q $(PARALLEL) || exit 1; \
	done

clean:
	rm -rf .venv .cache dist site
