# Everything one does here. `make` alone lists the tasks.

SHELL      := /bin/bash
UV_VERSION := 0.13.7
BIN        := .venv/bin
READY      := .venv/.ready

# Spark's Java and Python, for the tasks that start Spark. Read when a task runs, not before.
SPARK = JAVA_HOME="$$(cat .venv/java-home)" PYSPARK_PYTHON="$(CURDIR)/$(BIN)/python"
# uv works on .venv with the Python it was made with, and on nothing else.
UV = env -u VIRTUAL_ENV -u UV_PYTHON UV_PROJECT_ENVIRONMENT=.venv UV_PYTHON_DOWNLOADS=never $(BIN)/uv

.DEFAULT_GOAL := help
.PHONY: help env demo test test-lowest cluster-test check bench reproduce docs clean

help: ## List the tasks
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1\t\2/' | expand -t 14

env: $(READY) ## Build .venv with everything locked in uv.lock, and find or fetch a Java

$(READY): pyproject.toml uv.lock scripts/java.py
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
	$(UV) sync --frozen --inexact --all-extras --python $(BIN)/python
	$(BIN)/python scripts/java.py
	@touch $(READY)

demo: $(READY) ## Watch the k best rows of a Spark stream change, in the terminal and in the browser
	$(SPARK) $(BIN)/skyband demo --dashboard

test: $(READY) ## Run all tests, those on Spark beside the others, then the contract suite without compiled kernels
	@$(SPARK) $(BIN)/python -m pytest tests/spark > .venv/spark-tests.log 2>&1 & spark=$$!; \
	$(SPARK) $(BIN)/python -m pytest --ignore=tests/spark; others=$$?; \
	wait $$spark; on_spark=$$?; cat .venv/spark-tests.log; [ $$others = 0 ] && [ $$on_spark = 0 ]
	$(SPARK) NUMBA_DISABLE_JIT=1 HYPOTHESIS_PROFILE=nojit $(BIN)/python -m pytest tests/contract

test-lowest: $(READY) ## Run the Spark tests once more on the oldest Spark that is supported
	[ -x .venv/lowest/bin/python ] || $(UV) venv --quiet --python $(BIN)/python .venv/lowest
	$(BIN)/uv export --quiet --frozen --no-hashes --no-emit-project --all-extras --no-emit-package pyspark \
	  --group test --no-group lint --no-group docs > .venv/lowest/needed.txt
	$(BIN)/uv pip install --quiet --python .venv/lowest/bin/python -r .venv/lowest/needed.txt "pyspark==4.2.0" --editable .
	cp .venv/java-home .venv/lowest/
	JAVA_HOME="$$(cat .venv/java-home)" .venv/lowest/bin/python -m pytest -q tests/spark/test_top_k.py tests/spark/test_faults.py

cluster-test: $(READY) ## Run on a master and two workers of their own, and kill an executor in the middle
	$(SPARK) $(BIN)/python scripts/cluster_test.py

check: $(READY) ## Check style, types and the layers of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY) ## Measure the engines, quickly
	$(SPARK) $(BIN)/skyband bench slide --quick

reproduce: $(READY) ## Run the papers' experiments again where a raw file is missing, quickly, and write their pages
	$(BIN)/skyband reproduce all --quick --pages docs/evidence

docs: $(READY) ## Build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## Remove .venv and everything built
	rm -rf .venv site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
