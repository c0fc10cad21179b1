# Everything a contributor runs, by name. `make` alone explains itself.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
unexport VIRTUAL_ENV PYTHONHOME PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready
UV := $(firstword $(wildcard $(BIN)/uv) uv)

# More arguments for pytest, the demo or the benchmark: make test ARGS="-k merge"
ARGS ?=

SOAKED := tests/tpch tests/tpcds tests/views tests/derivations tests/execution tests/delta tests/lake tests/storage tests/samples tests/sketches tests/synopses tests/scheduling tests/updating tests/sql

.PHONY: help setup java demo test test-fast soak check bench specs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## create .venv with the locked dependencies and this package

$(READY): pyproject.toml requirements.lock
	@test -x $(BIN)/python || tools/make-venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

java: ## check that Java 17 or later is there
	@tools/java-check

demo: $(READY) java ## a lake, a view, a change, a refresh: what Belvedere does, in two minutes
	$(BIN)/belvedere demo $(ARGS)

# Exit code 5 is pytest's for no test: ARGS may choose tests of one half alone.
test: $(READY) java ## every test but those of make soak
	$(BIN)/python -m pytest -n 2 -m "not spark" $(ARGS) || test $$? -eq 5
	$(BIN)/python -m pytest -m spark $(ARGS) || test $$? -eq 5

test-fast: $(READY) ## the tests that need no Java, within a minute
	$(BIN)/python -m pytest -n 2 -m "not spark" $(ARGS)

soak: $(READY) java ## what is too long for every run: TPC-H and TPC-DS as views, a hundred kills, faults, a thousand refreshes
	BELVEDERE_KILLS=100 $(BIN)/python -m pytest --soak $(SOAKED) $(ARGS)

check: $(READY) ## format, lint, types, and the rules of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --strict src
	$(BIN)/python -m pytest --quiet tests/test_house.py

bench: $(READY) java ## refresh against recomputation, the quick form
	$(BIN)/python -m benchmarks.refresh --quick $(ARGS)

specs: $(READY) ## rewrite the golden files under tests/specs; read the diff before committing it
	$(BIN)/python -m pytest tests/specs --update $(ARGS)

lock: ## resolve pyproject.toml into requirements.lock again (needs uv)
	@$(UV) --version >/dev/null 2>&1 || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
		--no-header --no-emit-index-url --no-annotate --group dev pyproject.toml -o requirements.lock

clean: ## remove caches, builds and the demo's lake; .venv stays
	rm -rf .mypy_cache .ruff_cache .pytest_cache .hypothesis dist demo-lake
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
