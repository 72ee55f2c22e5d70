# make help lists the targets. PYTHON=python3.12 picks the interpreter of a new environment, VENV=DIR its folder.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PIP_EDITABLE := $(PIP_INSTALL) --build-constraint constraints.txt --editable

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# Two pips must not write to one environment at once.
.NOTPARALLEL:
.PHONY: help setup runtimes dev data browser run check lint test bench docs wheelhouse pins clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '  make %-11s %s\n' "$$target" "$$text"; done

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "breakeven needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1 || true)." \
			"Name one: make setup PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp a set of packages: made once, made again when what is asked for changes.
# pip first: the one that comes with Python 3.11 can't pin what a build uses.
$(VENV)/pip.stamp: $(BIN)/python constraints.txt
	$(PIP_INSTALL) --upgrade pip
	touch $@

$(VENV)/setup.stamp: $(VENV)/pip.stamp pyproject.toml
	$(PIP_EDITABLE) '.[torch,report]'
	touch $@

$(VENV)/runtimes.stamp: $(VENV)/pip.stamp pyproject.toml
	$(PIP_EDITABLE) '.[int8,onnx,openvino,load,jax,tensorflow]'
	touch $@

$(VENV)/dev.stamp: $(VENV)/pip.stamp pyproject.toml
	$(PIP_EDITABLE) '.[report,docs,dev]'
	touch $@

setup: $(VENV)/setup.stamp ## install breakeven with torch and reports into .venv (once)

runtimes: $(VENV)/runtimes.stamp ## add the other runtimes (ONNX Runtime, OpenVINO, JAX, TensorFlow) and LoadGen to .venv (once; run needs none)

dev: $(VENV)/dev.stamp ## install the development tools into .venv (once; no framework)

data: ## fetch Fashion-MNIST into the data cache, from Debian's package
	@tools/fetch-data.sh

browser: ## install Debian's Chromium for the report tests
	@tools/install-browser.sh

run: setup ## measure this machine: breakeven run quick
	$(BIN)/breakeven run quick

lint: dev
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy src benchmarks
	$(BIN)/lint-imports

check: lint ## the quick loop: lint, types, layers, and the tests that need no framework, browser or GPU
	$(BIN)/pytest -q -m 'not framework and not browser and not gpu and not slow'

docs: dev ## build the documentation into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

test: setup runtimes dev data browser lint docs ## everything that has to pass before a merge
	$(BIN)/pytest

BENCH_DEVICE ?= cpu
BENCH_MODELS ?= simple-cnn resnet18
BENCH := $(BIN)/python benchmarks
BENCH_END = --device $(BENCH_DEVICE) --wait 10 -o benchmarks/results

bench: setup runtimes data ## what measuring costs, and the harness against bare loops: half an hour on a quiet machine
	$(BENCH)/overhead.py $(BENCH_END)/overhead-$(BENCH_DEVICE).json
	for model in $(BENCH_MODELS); do for what in harness_step bare_loop; do \
		$(BENCH)/$$what.py --model $$model $(BENCH_END)/$$what-$$model-$(BENCH_DEVICE).json || exit 1; done; done
	$(BENCH)/bare_onnxruntime.py --wait 10 -o benchmarks/results/bare_onnxruntime-resnet18-cpu.json
	$(BENCH)/int8_gain.py --wait 10 -o benchmarks/results/int8_gain-resnet18-cpu.json

wheelhouse: $(VENV)/pip.stamp ## wheels for a machine without network: make wheelhouse PYTHON_VERSION=3.12
	PYTHON=$(abspath $(BIN)/python) tools/wheelhouse.sh

pins: ## renew constraints.txt within the ranges of pyproject.toml (needs Python 3.11)
	PYTHON='$(PYTHON)' tools/pins.sh

clean: ## remove .venv and everything that was built; results stay
	rm -rf $(VENV) build dist site wheelhouse .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
