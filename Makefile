# All of it works on a machine that has only Python >= 3.11 and make.

PYTHON ?= python3
# Another Python has an environment of its own: `make test PYTHON=python3.12` uses .venv-python3.12.
VENV ?= .venv$(if $(filter-out python3,$(notdir $(PYTHON))),-$(notdir $(PYTHON)))
JOBS ?= 2
PYTEST_ARGS ?=

PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
DOCS_STAMP := $(VENV)/.installed-docs
GPU_CHECK := $(VENV)/gpu-check
TSC := $(VENV)/tsc
PICTURE := build/leduc_refine.png

.DEFAULT_GOAL := help
.PHONY: help demo check near test test-slow test-longest lint style types format docs clean distclean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(STAMP)  ## refine Leduc's subgames, print the table and draw the picture
	@mkdir -p $(dir $(PICTURE))
	$(VENV)/bin/jaxgadget refine leduc_poker --plot $(PICTURE)

check: $(STAMP)  ## lint, types, and the tests nearest to what differs from main, in a minute and a half
	@$(MAKE) --no-print-directory style
	@$(MAKE) --no-print-directory -j 2 types near

# Files are taken nearest first; a test that would start after 45 seconds is skipped.
near: $(STAMP)
	$(PY) -m pytest -q -n $(JOBS) --dist loadfile --no-loadscope-reorder --seconds 45 -m "not slow" $(PYTEST_ARGS) $$($(PY) -m tests.reach)

test: $(STAMP)  ## run the tests, in minutes (PYTEST_ARGS="..." passes options on)
	$(PY) -m pytest -n $(JOBS) --dist worksteal --ignore tests/slow -m "not slow" $(PYTEST_ARGS)

test-slow: $(STAMP) $(GPU_CHECK) $(TSC)  ## run what takes long: slow tests, experiments, notebooks, documented programs, random games, kill -9
	$(PY) -m pytest -n $(JOBS) --dist worksteal -m "slow and not longest" $(PYTEST_ARGS) --ignore tests/slow/gpu tests
	PYTHONPATH=$(GPU_CHECK) $(PY) -m pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS) tests/slow/gpu

test-longest: $(STAMP)  ## run the slow tests that test-slow omits: whole experiments and stored tables
	$(PY) -m pytest -n $(JOBS) --dist worksteal -m longest $(PYTEST_ARGS) tests/slow

lint: style types  ## check format, lint and types

style: $(STAMP)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .

types: $(STAMP)
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(PY) -m pyright --pythonpath $(PY)

format: $(STAMP)  ## format, and mend what ruff can mend
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: $(DOCS_STAMP)  ## build the documentation into build/site; executes the notebooks, a quarter of an hour of processor time
	@test "$$DOCS_EXECUTE" = false || echo "Executing the notebooks takes a quarter of an hour of processor time; DOCS_EXECUTE=false omits their outputs"
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

clean:  ## remove caches and build products
	rm -rf build dist .cache
	find . -path './.venv*' -prune -o -type d -name __pycache__ -exec rm -rf {} +

distclean: clean  ## clean, and remove the virtual environment
	rm -rf $(VENV)

# The installation is editable, so only a change of what it depends on asks for a new one.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(None if v >= (3, 11) else "jaxgadget needs Python >= 3.11, but $(PYTHON) is %d.%d; name another: make PYTHON=python3.12 ..." % v[:2])'
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "Installing jaxgadget and its tools into $(VENV) (some minutes, once)"
	@$(PY) -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@touch $@

# The compiler for GPUs, in a folder of its own: found in the environment, it would look for a driver whenever
# JAX starts. It exists for Linux alone; elsewhere the tests that need it are skipped.
$(GPU_CHECK): $(STAMP)
	@echo "Installing JAX's plugin for CUDA into $(GPU_CHECK)"
	@rm -rf $@ $@.part && mkdir $@.part
	@jax=$$($(PY) -c 'from importlib.metadata import version; print(version("jax"))'); \
	$(PY) -m pip install -qq --disable-pip-version-check --no-deps --target $@.part \
	jax-cuda12-plugin==$$jax jax-cuda12-pjrt==$$jax || test "$$(uname)" != Linux
	@mv $@.part $@

# Chromium and a type checker, for the explorer's page. Without them its tests are skipped.
$(TSC): $(STAMP)
	@echo "Installing Chromium, if the system has none, and TypeScript into $(TSC)"
	@rm -rf $@ $@.part && mkdir $@.part
	@for tool in chromium chromedriver; do command -v $$tool >/dev/null || missing=1; done; \
	test -z "$$missing" || test "$$(id -u)" != 0 || ! command -v apt-get >/dev/null || \
	for again in 1 2; do \
	DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends chromium chromium-driver >/dev/null && break; \
	apt-get update -qq; done
	@! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $@.part typescript@5.9.3
	@mv $@.part $@

$(DOCS_STAMP): $(STAMP)
	@echo "Installing the documentation's tools into $(VENV)"
	@$(PY) -m pip install -qq --disable-pip-version-check --editable '.[dev,docs]'
	@touch $@
