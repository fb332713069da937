# Everything one does here. `make` alone lists the tasks.

SHELL      := /bin/bash
UV_VERSION := 0.13.7
BIN        := .venv/bin
READY      := .venv/.ready
WARM       := .venv/.warm

# Spark's Java and Python, for the tasks that start Spark. Read when a task runs, not before.
SPARK = JAVA_HOME="$$(cat .venv/java-home)" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"
# The same for tests: Java's second compiler does not pay in processes that live for seconds.
TRIED = $(SPARK) JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1"
# Real data for tests and benchmarks: from the folder that SKYBAND_DATA names.
export SKYBAND_DATA ?= $(abspath $(wildcard ../shared/data))
# uv works on .venv with the Python it was made with, and on nothing else.
UV = env -u VIRTUAL_ENV -u UV_PYTHON UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never $(BIN)/uv

# Spark starts a Python for every worker: without compiled modules each takes seconds to import what it needs.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help env demo test test-lowest cluster-test torture fuzz fuzz-guided openapi soak audit check bench reproduce metrics docs clean

help: ## List the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

env: $(READY) $(WARM) ## Build .venv with everything locked in uv.lock, and find or fetch a Java

$(READY): pyproject.toml lab/pyproject.toml uv.lock scripts/java.py
	@if ! [ -x $(BIN)/python ]; then \
	  found=; \
	  for python in python3.13 python3.12 python3.11 python3; do \
	    if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	  done; \
	  if [ -z "$$found" ]; then echo "skyband needs Python 3.11 or later; none was found on the PATH" >&2; exit 1; fi; \
	  echo "Making .venv with $$($$found --version)"; \
	  $$found -m venv .venv || { rm -rf .venv; exit 1; }; \
	fi
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	$(UV) sync --frozen --inexact --all-extras --compile-bytecode --python $(BIN)/python
	$(BIN)/python scripts/java.py
	@touch $(READY)

$(WARM): $(READY) scripts/warm.py
	@echo "Compiling the kernels, this once"
	@$(BIN)/skyband warm
	@$(SPARK) $(BIN)/python -W ignore scripts/warm.py 2> .venv/warm.log || { tail -5 .venv/warm.log; echo "Spark was not tried"; }
	@touch $(WARM)

demo: $(WARM) ## Watch the k best rows of a Spark stream change, in the terminal and in the browser
	$(SPARK) $(BIN)/skyband demo --dashboard

test: $(WARM) ## Run all tests: two at a time, then those on Spark, then the contract suite without compiled kernels
	$(TRIED) $(BIN)/python -m pytest -n 2 --dist loadfile -m "not spark"
	$(TRIED) $(BIN)/python -m pytest tests -m spark
	$(TRIED) SKYBAND_KERNELS=interpreted HYPOTHESIS_PROFILE=nojit $(BIN)/python -m pytest -n 2 tests/contract

test-lowest: $(READY) ## Run the Spark tests once more on the oldest Spark that is supported
	[ -x .venv/lowest/bin/python ] || $(UV) venv --quiet --python $(BIN)/python .venv/lowest
	$(BIN)/uv export --quiet --frozen --no-hashes --no-emit-workspace --all-extras --no-emit-package pyspark \
	  --group test --no-group lint --no-group docs --no-group lab > .venv/lowest/needed.txt
	$(BIN)/uv pip install --quiet --python .venv/lowest/bin/python -r .venv/lowest/needed.txt "pyspark==4.2.0" --editable .
	cp .venv/java-home .venv/lowest/
	JAVA_HOME="$$(cat .venv/java-home)" .venv/lowest/bin/python -m pytest -q tests/spark/test_top_k.py tests/spark/test_faults.py

cluster-test: $(READY) ## Run on a master and two workers of their own, and kill an executor in the middle
	$(SPARK) $(BIN)/python scripts/cluster_test.py

torture: $(READY) ## Break everything at random and compare the answers: MINUTES=45 FAULTS=300 SEED=...
	$(SPARK) $(BIN)/python -W ignore -m scripts.torture --faults $(or $(FAULTS),300) --minutes $(or $(MINUTES),60) \
	  $(if $(SEED),--seed $(SEED)) $(TORTURE)

# Property tests of which `make fuzz` tries other cases in every run.
PROPERTIES := tests/contract tests/test_arrow_types.py tests/test_edge_rows.py tests/test_steps.py tests/test_run.py \
  tests/test_workload.py tests/test_workload_long.py tests/test_join_status.py tests/test_score_definition.py \
  tests/test_round_trip.py

fuzz: $(WARM) ## Property tests with random cases, then damaged input of every kind: SECONDS=1800 EXAMPLES=1000 INPUTS=1000000 SEED=1
	HYPOTHESIS_PROFILE=long FUZZ_EXAMPLES=$(or $(EXAMPLES),1000) FUZZ_SECONDS=$$(($(or $(SECONDS),1800) / 2)) \
	  $(BIN)/python -m pytest -q $(PROPERTIES)
	$(BIN)/python -W ignore -m scripts.fuzz --inputs $(or $(INPUTS),100000) --seconds $$(($(or $(SECONDS),1800) / 2)) \
	  --seed $(or $(SEED),1)

fuzz-guided: $(READY) ## Texts, files and expressions led by coverage, by atheris: SECONDS=300 SEED=1
	$(UV) run --no-sync --with atheris python -W ignore -m scripts.fuzz.guided --seconds $(or $(SECONDS),300) \
	  --seed $(or $(SEED),1)

openapi: $(READY) ## The dashboard's API against its own OpenAPI document, by schemathesis: EXAMPLES=200
	$(UV) run --no-sync --with schemathesis python -W ignore -m scripts.openapi --examples $(or $(EXAMPLES),200)

soak: $(READY) ## Run at half of the highest rate and watch memory, state and latency: MINUTES=60
	$(SPARK) $(BIN)/python -W ignore -m scripts.soak --minutes $(or $(MINUTES),60)

audit: $(READY) ## Look up known weaknesses of everything that uv.lock names; passes over it without a network
	@$(UV) audit --frozen --quiet --preview-features audit > .venv/audit.log 2>&1; found=$$?; cat .venv/audit.log; \
	if [ $$found = 0 ]; then echo "audit: no known weakness"; \
	elif grep -qiE "error sending request|dns|connect|timed? ?out|network|offline|proxy" .venv/audit.log; then \
	  echo "audit: left out, for the list of weaknesses cannot be reached" >&2; \
	else exit $$found; fi

check: $(READY) audit ## Check style, types, the layers of imports, and dependencies for known weaknesses
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## Measure the engines, quickly, and say what has become slower (ARGS=--accept: keep as it is now)
	$(BIN)/skyband bench gate $(ARGS)

reproduce: $(READY) ## Run the papers' experiments whose results are missing, quickly, and write their pages
	$(BIN)/skyband reproduce all --quick --pages docs/evidence

metrics: $(READY) ## Size of the wheel and of its functions, and files that a row passes, beside the baseline
	$(SPARK) $(BIN)/python scripts/metrics.py $(ARGS)

docs: $(READY) ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## Remove .venv and everything built
	rm -rf .venv site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
