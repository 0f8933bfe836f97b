# Recipes for people and for CI alike; `make` lists them.
#
# .venv      the tools, and holdfast as a built wheel
# .services  programs in Python that tests talk to, with requirements of their own
# .build     the wheel and the stamps of its making
# .compiled  the same wheel unpacked, for test runs on compiled modules
#
# src never holds a shared library and is never installed as editable, so no stale library can stand in
# for an edited module.

PYTHON ?= python3
ARGS ?=
PYTEST_ARGS ?=

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PINNED := $(PIP) install --quiet --constraint constraints.txt
PYTEST := $(BIN)/python -m pytest $(PYTEST_ARGS)
# Quick tests share nothing. Slow ones are handed out file by file, because those of a file may share a broker or a Java,
# and the longest first (tests/schedule.py).
# All wait for disks, processes and Java now and then: two processors are busy with three at a time.
SIDE_BY_SIDE := -n 3
BY_FILE := $(SIDE_BY_SIDE) --dist loadfile --no-loadscope-reorder
# Quick tests open thousands of logs, and each waits for a dozen syncs, of which none is what is tested: their files are in
# memory, and go with each test that passes. Slow ones, which kill processes and lose power, have a disk.
IN_MEMORY := -o tmp_path_retention_policy=failed
MEMORY = PYTEST_DEBUG_TEMPROOT="$$(scripts/memory_folder)"
# No test runs long enough for Java's second compiler to earn what it costs.
SHORT_LIVED := JDK_JAVA_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Spark lowers its own priority. What runs beside it has the same, or Spark would come to nothing until that ends.
AS_SPARK := nice -n 10
# What Spark starts faster with (src/holdfast/pipeline/spark/start_cache.py), prepared before tests run side by side.
export HOLDFAST_SPARK_CACHE := $(CURDIR)/.build/spark

# Tests start hundreds of processes. Without bytecode files each of them would compile everything again.
export PYTHONDONTWRITEBYTECODE :=

# Stamps of the environment lie inside it, so that they go when it goes.
VENV := .venv/.made
TOOLS := .venv/.tools
DEV := .venv/.dev
SERVICES := .services/.made
INSTALLED := .venv/.installed
INPUTS := .build/inputs
WHEEL := .build/wheel.made
TREE := .build/tree.made

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run dev compiled test quick slow-tests spark-start spark-tests browser-tests check soak bench docs format coverage clean FORCE

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## build holdfast (compiled where possible) and install it into .venv

run: install ## install, then serve: make run ARGS="--port 1884"
	@exec $(BIN)/holdfast serve $(ARGS)

dev: $(DEV) $(SERVICES) ## install the tools for development

compiled: $(TREE) ## build the compiled modules into .compiled
	@$(BIN)/python scripts/compiled_tree.py judge

# While programs are installed, pytest compiles the tests once: in the quick tests three processes would at the same time.
# What fails in the quick tests ends it; of the others one round shows all that is wrong.
test: $(DEV) $(SERVICES) ## quick tests, then the compiled suites and the slow tests
	@$(PYTEST) --collect-only --quiet >/dev/null 2>&1 & scripts/services; status=$$?; wait; exit $$status
	@rm -rf .reports
	@$(MAKE) --no-print-directory --jobs 3 quick compiled spark-start
	@status=0; \
	$(MAKE) --no-print-directory --keep-going --jobs 2 slow-tests spark-tests || status=$$?; \
	$(MAKE) --no-print-directory browser-tests || status=$$?; \
	$(BIN)/python scripts/compiled_tree.py judge || status=$$?; \
	$(BIN)/python scripts/test_totals.py .reports; exit $$status

# Two parts of `test`, side by side: slow tests wait for kills, elections and grace periods more than they compute, Spark
# computes more than it waits.
slow-tests:
	@if [ -e .compiled/NOT_COMPILED ]; then set -x; \
		$(AS_SPARK) $(PYTEST) $(SIDE_BY_SIDE) -m seeds --junitxml=.reports/compiled.xml; else set -x; \
		$(MEMORY) $(AS_SPARK) $(PYTEST) $(SIDE_BY_SIDE) $(IN_MEMORY) --compiled -m "compiled or seeds" --junitxml=.reports/compiled.xml; fi
	$(AS_SPARK) $(PYTEST) $(BY_FILE) -m "slow and not spark and not browser and not seeds" --junitxml=.reports/slow.xml

# Java is there for certain (scripts/services). It may come to nothing: then Spark starts slowly, and that is said.
spark-start: $(DEV)
	@PYTHONPATH=src $(BIN)/python -m holdfast.pipeline.spark.start_cache

# On the compiled modules, as users have them: what executors are sent is pickled otherwise there.
WHERE_COMPILED := $$([ -e .compiled/NOT_COMPILED ] || echo --compiled)
spark-tests:
	$(SHORT_LIVED) $(AS_SPARK) $(PYTEST) $(BY_FILE) $(WHERE_COMPILED) -m "slow and spark and not browser" --junitxml=.reports/spark.xml

# A browser needs the processors, and its driver keeps an event loop in the process of the tests: nothing runs beside it.
browser-tests:
	$(PYTEST) -n 2 --dist loadfile --no-loadscope-reorder -m browser --junitxml=.reports/browser.xml

quick: $(DEV) ## the tests that need neither a compiler nor patience
	$(MEMORY) $(PYTEST) $(SIDE_BY_SIDE) $(IN_MEMORY) -m "not slow" --junitxml=.reports/quick.xml

check: $(DEV) ## lint, formatting, types, import contracts, file sizes
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports --no-cache --no-logo
	$(BIN)/python scripts/size_gate.py
	PYTHONPATH=src $(BIN)/python scripts/reference.py --check

# Ends with ten executors killed in each job of Spark, with 600 kills of a broker on the log and 100 with each kind of client
# queue, from three seeds, with 200 kills and 50 power losses of the log alone, with 100 kills of the console and the history
# process, with thousands of seeds of each cluster simulation, with every fault of the fault suite, and with an hour of real
# load. CI runs a share of each.
LOG_CRASHES := $(addprefix tests/crash/test_,log_crash.py kill.py power_loss.py broker_power_loss.py damage.py)
soak: $(DEV) compiled ## a simulated day, hundreds of kills and faults, a real hour under load: takes four to five hours
	@scripts/services
	@mkdir -p .reports
	HOLDFAST_SOAK_HOURS=24 $(PYTEST) tests/soak -s
	HOLDFAST_DRIVER_MB=1024 $(PYTEST) tests/spark/test_driver_memory.py
	HOLDFAST_SPARK_KILLS=10 $(PYTEST) tests/spark/test_standalone.py
	for seed in 1 2 3; do \
		HOLDFAST_CRASH_SEED=$$seed HOLDFAST_CRASH_RUNS=204 $(PYTEST) -n 2 tests/crash/test_broker_kill.py || exit 1; done
	HOLDFAST_CRASH_RUNS=203 $(PYTEST) -n 2 --timeout 3600 $(LOG_CRASHES)
	HOLDFAST_CONSOLE_KILLS=100 $(PYTEST) tests/crash/test_console_kills.py
	PYTHONPATH=.compiled $(BIN)/python -m tests.simulation.seed_run --kinds all --seeds 5000 --processes 2
	HOLDFAST_SIMULATION_SEEDS=5000 HOLDFAST_HISTORIES=10 $(PYTEST) -n 2 \
		tests/simulation/test_defects.py tests/simulation/test_registry_histories.py
	PYTHONPATH=src $(BIN)/python -m tests.cluster.fault_run --all --json .reports/faults.json
	PYTHONPATH=.compiled $(BIN)/python -m tests.soak.steady_load --minutes 60

bench: $(DEV) $(INSTALLED) compiled ## measure, on compiled modules: make bench ARGS=...
	PYTHONPATH=.compiled $(BIN)/python -m bench $(ARGS)

docs: $(DEV) ## write the generated parts of the documentation
	PYTHONPATH=src $(BIN)/python scripts/reference.py

format: $(DEV) ## repair what lint and formatting can repair by themselves
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

coverage: $(DEV) ## run the quick tests and show the lines they miss
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -m "not slow" $(PYTEST_ARGS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

clean: ## remove everything that was built
	rm -rf .venv .services .build .compiled .reports build dist src/*.egg-info htmlcov .coverage .coverage.*
	rm -rf .hypothesis .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
	find src tests scripts $(wildcard bench) -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV):
	@PYTHON=$(PYTHON) scripts/bootstrap
	@touch $@

$(TOOLS): $(VENV) pyproject.toml constraints.txt
	$(BIN)/python scripts/requirements.py runtime build > .venv/tools.txt
	$(PINNED) --requirement .venv/tools.txt
	@touch $@

$(DEV): $(TOOLS)
	$(BIN)/python scripts/requirements.py runtime dev > .venv/dev.txt
	$(PINNED) --requirement .venv/dev.txt
	@touch $@

$(SERVICES): $(VENV) pyproject.toml constraints-services.txt
	$(BIN)/python -m venv .services
	$(BIN)/python scripts/requirements.py services > .services/requirements.txt
	.services/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints-services.txt --requirement .services/requirements.txt
	@touch $@

$(INPUTS): FORCE $(VENV)
	@$(BIN)/python scripts/build_inputs.py $@

# Without isolation, so that the pinned tools do the building.
$(WHEEL): $(INPUTS) $(TOOLS)
	@rm -rf .build/wheel .build/wheel.log
	$(PIP) --log .build/wheel.log wheel --quiet --no-deps --no-build-isolation --wheel-dir .build/wheel .
	@echo "holdfast: the wheel is built ($$(cat build/outcome))"
	@touch $@

$(INSTALLED): $(WHEEL)
	$(PIP) install --quiet --no-deps --force-reinstall .build/wheel/*.whl
	@touch $@

$(TREE): $(WHEEL)
	@$(BIN)/python scripts/compiled_tree.py unpack
	@touch $@
