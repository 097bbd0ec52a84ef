# Two commands are enough: `make quickstart` to see it work, `make test` to check a change.
# Paths are relative and every cache stays in the tree, so folders with spaces and a read-only home are fine.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.PHONY: help install dev quickstart test lint types unit examples bench clean

PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
WORKERS ?= auto
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
	@echo "make test        install the development extras, then ruff, mypy, pytest and the examples"
	@echo "make bench       print speed and memory of the hot paths"
	@echo "make clean       remove .venv and .cache"

# The stamps make a second call install nothing; editing either file below installs again.
.venv/base.stamp: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "fewnode needs Python 3.11 or newer; call make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Installing fewnode into .venv (the first time takes a few minutes: torch is large)"
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	@touch $@

# The quickstart's page has figures: matplotlib.
.venv/report.stamp: .venv/base.stamp
	$(PIP) --quiet --editable '.[report]'
	@touch $@

.venv/dev.stamp: .venv/base.stamp
	@echo "Installing the development extras"
	$(PIP) --editable '.[dev]'
	@touch $@

install: .venv/base.stamp

dev: .venv/dev.stamp

quickstart: .venv/report.stamp
	$(PY) examples/quickstart.py

test: lint types unit examples

lint: dev
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: dev
	$(PY) -m mypy

# One thread per worker: the workers already fill the cores, and tiny solves crawl when threads compete.
unit: dev
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -n $(WORKERS) --maxprocesses 8

examples: dev
	@for example in examples/*.py; do echo "$$example"; $(PY) "$$example" || exit 1; done

bench: install
	@for benchmark in benchmarks/*.py; do echo "$$benchmark"; $(PY) "$$benchmark" || exit 1; done

clean:
	rm -rf .venv .cache
