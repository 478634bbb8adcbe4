# make demo   installs into .venv and runs the main job on the embedded data set
# make test   installs into .venv and runs the tests; those of the site are skipped until make docs has installed its tools
PYTHON ?= python3
ifeq ($(OS),Windows_NT)
BIN := .venv/Scripts
else
BIN := .venv/bin
endif

.PHONY: demo test freeze lint format docs bench test-lir bench-lir bundle bundle-test clean
export NO_MKDOCS_2_WARNING := 1

demo: .venv/installed
	$(BIN)/lindley run demo --out results/demo

# One thread a process: two processes with two threads each would wait for one another more than they work.
# And compiled files are kept, also where the environment says otherwise: each of the processes would compile all tests again.
# A file of tests stays in one process, which makes once what its tests share; tests/conftest.py tells which come first.
test: export OMP_NUM_THREADS = 1
test: export PYTHONDONTWRITEBYTECODE =
test: .venv/installed-dev
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

# Writes down what lindley promises to its users (names, formats, texts, numbers), which a test compares: after a change that is meant.
freeze: export OMP_NUM_THREADS = 1
freeze: .venv/installed-dev
	$(BIN)/python -m tests.frozen.make

lint: .venv/installed-dev
	$(BIN)/ruff check src tests bench bundle docs/theme
	$(BIN)/ruff format --check src tests bench bundle docs/theme
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed-dev
	$(BIN)/ruff check --fix src tests bench bundle docs/theme
	$(BIN)/ruff format src tests bench bundle docs/theme

docs: .venv/installed-docs
	$(BIN)/python -m mkdocs build --strict

# Prints tables and writes results/bench.json. BENCH takes more options, such as BENCH="--sections training".
bench: .venv/installed
	$(BIN)/python -m bench --json results/bench.json $(BENCH)

# LiR needs Python 3.12 or newer, and gets an environment of its own.
PYTHON312 ?= python3.12

test-lir: export OMP_NUM_THREADS = 1
test-lir: .venv-lir/installed
	.venv-lir/bin/python -m pytest -n auto --maxfail=1 tests/adapters

bench-lir: .venv-lir/installed
	.venv-lir/bin/python -m bench --json results/bench-lir.json $(BENCH)

.venv-lir/installed: pyproject.toml constraints.txt Makefile
	@$(PYTHON312) -c 'import sys; sys.exit(sys.version_info < (3, 12))' || { echo "LiR needs Python 3.12 or newer: make PYTHON312=... test-lir"; exit 1; }
	$(PYTHON312) -m venv .venv-lir
	.venv-lir/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lir]' pytest pytest-xdist hypothesis
	@touch $@

# What is carried to machines without a network, into dist/: make bundle PLATFORM=win_amd64 PY=3.12. PLATFORM is win_amd64,
# linux_x86_64 or macosx_arm64; without, both are those of this machine. BUNDLE takes more options (python -m bundle --help).
ALL_PLATFORMS := linux_x86_64 win_amd64 macosx_arm64
bundle_options = $(if $(PY),--python $(PY)) $(BUNDLE)

bundle: .venv/installed
	$(BIN)/python -m bundle $(if $(PLATFORM),--platform $(PLATFORM)) $(bundle_options)

# Makes the bundles of all platforms (or of PLATFORM), sees that pip finds everything in them without an index, and installs the
# one for this machine where there is no network, and evaluates a case with it. Takes some minutes, a network and 3 GB of disk.
bundle-test: .venv/installed
	for platform in $(or $(PLATFORM),$(ALL_PLATFORMS)); do $(BIN)/python -m bundle --platform $$platform --prove $(bundle_options) || exit 1; done

clean:
	rm -rf .venv .venv-lir results site dist

.venv/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "lindley needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv .venv
	@touch $@

# Modules are compiled as they are imported, and then kept: most of those that pip would compile no run ever imports.
.venv/installed: .venv/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt -e .
	@touch $@

.venv/installed-dev: .venv/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@ .venv/installed

.venv/installed-docs: .venv/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@ .venv/installed
