# Everything runs in `.venv`, which is made on first use and again when its inputs change.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
WORKERS ?= 2
PYTEST := $(BIN)/python -P -m pytest
ARGS ?=

.PHONY: help demo test check bench format nightly clean

help: ## list the targets
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

demo: $(STAMP) ## run the main job on a real bug
	$(BIN)/reproduce demo

test: $(STAMP) ## run every test but the nightly ones
	$(PYTEST) -q -n $(WORKERS) -m 'not nightly' $(ARGS)

check: $(STAMP) ## layout, lint, types, import contracts, docs
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q tests/test_docs.py

bench: $(STAMP) ## measure the overhead and the reducers
	@for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python -P "$$script"; done

format: $(STAMP) ## lay out the code
	$(BIN)/ruff check --quiet --fix-only .
	$(BIN)/ruff format --quiet .

nightly: $(STAMP) ## the long tests
	$(PYTEST) -q -n $(WORKERS) -m nightly $(ARGS) || [ $$? -eq 5 ] # 5: there are none

clean: ## remove what these targets made
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# `-qq` keeps pip to its errors. The stamp is written last, so a broken install is tried again.
$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "python 3.11 is needed: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "$(PYTHON) is older than 3.11: set PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "the module venv is missing: apt-get install python3-venv" >&2; exit 1; }
	@echo "setting up .venv (about a minute)" >&2
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/pip install -qq -c constraints.txt -e '.[dev]'
	@touch $@
