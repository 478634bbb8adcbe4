# make demo   installs into .venv and runs the main job on the embedded data set
# make test   installs into .venv and runs the tests
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif

.PHONY: demo test lint format bench test-lir bench-lir clean

demo: .venv/installed
	$(BIN)/lindley run demo --out results/demo

test: .venv/installed-dev
	$(BIN)/python -m pytest

lint: .venv/installed-dev
	$(BIN)/ruff check src tests bench
	$(BIN)/ruff format --check src tests bench
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix src tests bench
	$(BIN)/ruff format src tests bench

bench: .venv/installed
	$(BIN)/python bench/scoring.py
	$(BIN)/python bench/training.py

# LiR needs Python 3.12 or newer, and gets an environment of its own.
PYTHON312 ?= python3.12

test-lir: .venv-lir/installed
	.venv-lir/bin/python -m pytest tests/adapters

bench-lir: .venv-lir/installed
	.venv-lir/bin/python bench/beside_lir.py

.venv-lir/installed: pyproject.toml constraints.txt
	@$(PYTHON312) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "LiR needs Python 3.12 or newer: make PYTHON312=... test-lir"; exit 1; }
	$(PYTHON312) -m venv .venv-lir
	.venv-lir/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lir]' pytest hypothesis
	@touch $@

clean:
	rm -rf .venv .venv-lir results site

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lindley needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

.venv/installed: .venv/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

.venv/installed-dev: .venv/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ .venv/installed
