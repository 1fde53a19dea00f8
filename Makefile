# Needs Python 3.11 to 3.13, pip and make. Everything else comes from the hash-locked requirements.

SHELL := /bin/bash
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules
export PIP_DISABLE_PIP_VERSION_CHECK := 1

VENV := .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9

# 3.11 first: the oldest supported version is the one that the checks run on.
CANDIDATES := python3.11 python3 python3.12 python3.13
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))
PYTHON ?= $(shell for python in $(CANDIDATES); do \
	$$python -c '$(SUPPORTED)' >/dev/null 2>&1 && { echo $$python; break; }; done)

# The lock lists everything, so nothing is resolved and nothing unlisted can come in.
# Bytecode is compiled on first import: most of what is installed is never imported.
INSTALL := $(BIN)/python -m pip install -qq --no-deps --no-compile

PYTEST_ARGS ?=

.PHONY: help venv demo check test lock clean

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-8s %s\n", $$1, $$2}'

venv: $(VENV)/.installed ## Make .venv with everything that hpo needs

demo: venv ## Run the learning-rate study and print its winner
	$(BIN)/hpo run sweeps/lr.yaml
	$(BIN)/hpo best lr-digits

check: $(VENV)/.checkers ## Lint, format, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check ## Check, then run every test that needs no GPU; PYTEST_ARGS are passed on
	$(BIN)/pytest -m "not gpu" $(PYTEST_ARGS)

lock: $(VENV)/.python ## Resolve the dependencies again; the only target that needs uv
	$(INSTALL) uv==$(UV_VERSION)
	$(BIN)/uv pip compile pyproject.toml --extra postgres $(COMPILE) --output-file requirements.lock
	$(BIN)/python -c 'import pathlib, tomllib; \
		project = tomllib.loads(pathlib.Path("pyproject.toml").read_text())["project"]; \
		print(*project["optional-dependencies"]["test"], sep="\n")' \
	| $(BIN)/uv pip compile - --constraint requirements.lock $(COMPILE) \
		--output-file requirements-test.lock
	$(BIN)/uv pip compile docker/mlflow.in --constraint requirements.lock $(COMPILE) \
		--output-file docker/mlflow.lock

COMPILE := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --quiet \
	--custom-compile-command "make lock"

clean: ## Remove .venv and every cache; studies in runs/ stay
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: a step runs again only when what it was made from has changed.

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "No Python 3.11 to 3.13 found; install one, or run make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.locked: requirements.lock | $(VENV)/.python
	@echo "Installing $(words $(shell grep -oE '^[a-z0-9._-]+==' $<)) locked packages; PyTorch is large, so this takes some minutes"
	$(INSTALL) --require-hashes -r $<
	@touch $@

$(VENV)/.installed: pyproject.toml $(VENV)/.locked
	$(INSTALL) --no-build-isolation --editable .
	@touch $@

$(VENV)/.checkers: requirements-test.lock $(VENV)/.installed
	$(INSTALL) --require-hashes -r $<
	@touch $@
