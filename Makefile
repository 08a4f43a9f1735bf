# The same commands on a laptop and in CI; `make` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# The first Python of 3.11 or newer; `make setup PYTHON=/path/to/python3` chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
BIN := .venv/bin
# Java of this machine if it is 17 or newer, else the one that set-up installed. Empty: `java` on the PATH.
WITH_JAVA = $(BIN)/python -m controlplane.runtime.java
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCKS := requirements/build.txt requirements/all.txt requirements/java.txt
# Spark versions of the matrix: the newest is that of .venv, the others get an environment each.
OLDER := 3.4 3.5 4.0
MATRIX ?= $(OLDER) 4.3

.PHONY: help setup demo test test-long test-soak test-matrix check format bench lock dist audit deploy-files clean

help:
	@echo 'make setup      .venv with everything, from the lock files'
	@echo 'make demo       set-up, then server, dashboard and a fleet of real queries (DEMO="--minutes 5 --port 9000")'
	@echo 'make test       set-up, then the tests that take less than a minute each (TESTS="tests/unit -k wire")'
	@echo 'make test-long  set-up, then the tests that take a minute or more'
	@echo 'make test-soak  set-up, then soak tests: alerts beside Prometheus, a server that is down for minutes'
	@echo 'make test-matrix  set-up of older Sparks too, then the agent on each of them (MATRIX="3.5 4.3")'
	@echo 'make check      set-up, then formatting, lint, types, the floor of the agent (Python 3.9)'
	@echo 'make bench      set-up, then every benchmark (QUICK=1: the smoke run)'
	@echo 'make lock       writes requirements/*.txt anew;  make dist: both wheels, bills of materials and licences into dist/;  make clean'
	@echo 'make audit      known vulnerabilities of the locked packages'
	@echo 'make deploy-files  what deploy/ has of the shipped rules and dashboards'

setup: .venv/.ready

.venv/.ready: $(LOCKS) pyproject.toml controlplane/runtime/java.py
	@if [ -z "$(PYTHON)" ]; then echo 'setup: Python 3.11 or newer is needed; none is on the PATH' >&2; exit 2; fi
	@echo "setup 1/4: virtual environment in .venv ($$($(PYTHON) -V))"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv || { rm -rf .venv; \
		echo 'setup: python3 -m venv failed; on Debian and Ubuntu: apt-get install python3-venv' >&2; exit 2; }
	@echo 'setup 2/4: locked packages; the first time this takes minutes (pyspark alone is 450 MB)'
	@$(PIP) install --quiet --require-hashes --only-binary :all: -r requirements/build.txt
	@$(PIP) install --require-hashes --no-build-isolation -r requirements/all.txt \
		| { grep --line-buffered -E '^(Collecting|Processing|Building|Installing|Successfully)' | cut -c 1-100 || true; }
	@echo 'setup 3/4: this project'
	@$(PIP) install --quiet --no-deps --no-build-isolation -e .
	@echo 'setup 4/4: Java 17 or newer'
	@$(BIN)/python -m controlplane.runtime.java --check || { \
		$(PIP) install --quiet --require-hashes --only-binary :all: -r requirements/java.txt && \
		$(BIN)/python -m controlplane.runtime.java --wrap; }
	@touch $@
	@echo 'setup: done'

demo: setup
	@exec $(BIN)/controlplane demo $(DEMO)

# The classes of Spark, so that each JVM of the tests starts in half the time.
CLASSES := .venv/spark-classes.jsa
$(CLASSES): .venv/.ready tests/class_archive.py
	@echo 'archive of the classes of Spark, once: about half a minute'
	@$(WITH_JAVA) $(BIN)/python -m tests.class_archive $@ > .venv/spark-classes.log 2>&1 || { cat .venv/spark-classes.log; exit 2; }

# Four workers, each file on one of them: tests with servers wait, tests with Spark keep two cores busy. WORKERS=0 runs
# them one after the other.
WORKERS ?= 4
PYTEST = $(WITH_JAVA) $(BIN)/python -m pytest

test: setup $(CLASSES)
	@$(PYTEST) -n $(WORKERS) --dist loadfile $(TESTS)

# Only folders that have such tests: each worker collects all that it is given. pytest exits with 5 where it
# selects no test.
LONG := tests/acceptance tests/ui tests/security tests/contract tests/spark tests/unit/controlplane/health tests/unit/controlplane/history \
	tests/unit/controlplane/lake tests/unit/packaging
test-long: setup $(CLASSES)
	@$(PYTEST) -m "long and not alone and not soak" -n $(WORKERS) --dist loadfile $(or $(TESTS),$(LONG)) || [ $$? -eq 5 ]
	@$(PYTEST) -m "long and alone and not soak" $(or $(TESTS),tests/spark) || [ $$? -eq 5 ]

test-soak: setup $(CLASSES)
	@$(PYTEST) -m soak $(TESTS)

# pytest alone would take the interpreter of .venv for every Spark: the tests find the others in .matrix/.
test-matrix: setup $(CLASSES) $(patsubst %,.matrix/%/.ready,$(filter $(OLDER),$(MATRIX)))
	@CONTROLPLANE_MATRIX="$(MATRIX)" $(PYTEST) -m matrix -n $(WORKERS) --dist loadfile $(or $(TESTS),tests/spark/matrix)

.matrix/%/.ready: requirements/matrix-%.txt requirements/build.txt | setup
	@echo "matrix: PySpark $* in .matrix/$* (about 350 MB to fetch)"
	@[ -x .matrix/$*/bin/python ] || $(BIN)/python -m venv .matrix/$*
	@for lock in build matrix-$*; do .matrix/$*/bin/python -m pip --disable-pip-version-check install --quiet \
		--require-hashes --no-build-isolation -r requirements/$$lock.txt; done
	@touch $@

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 --cache-dir .mypy_cache/agent listeners
	$(BIN)/vermin -t=3.9- --violations --no-tips listeners

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Parts of others, and the soak of faults, which needs root.
NO_BENCHES := serving.py simulated_drivers.py fault_parts.py faults.py
bench: setup
	@for script in $(filter-out $(addprefix bench/,$(NO_BENCHES)),$(wildcard bench/*.py)); do echo "== $$script"; \
		$(WITH_JAVA) $(BIN)/python "$$script" $(if $(QUICK),--quick); done

# uv resolves for every Python and platform at once; nothing else needs it.
lock:
	@command -v uv >/dev/null || { echo 'lock: uv is needed: pip install uv' >&2; exit 2; }
	@cd requirements && for name in build java $(patsubst %,matrix-%,$(OLDER)); do uv pip compile $(UV_FLAGS) $$name.in -o $$name.txt; done
	@uv pip compile $(UV_FLAGS) pyproject.toml $(EXTRAS) --extra dev -o requirements/all.txt
	@uv pip compile $(UV_FLAGS) pyproject.toml $(EXTRAS) -c requirements/all.txt -o requirements/image.txt
	@uv pip compile $(UV_FLAGS) pyproject.toml $(SERVER) -c requirements/all.txt -o requirements/server.txt

SERVER := --extra server --extra postgres --extra apprise
EXTRAS := $(SERVER) --extra pipeline
UV_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	--default-index https://pypi.org/simple --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

dist: setup
	@$(PIP) wheel --quiet --no-deps --no-build-isolation -w dist .
	@$(BIN)/python packaging/agent_wheel.py dist
	@$(BIN)/python packaging/bill_of_materials.py dist

# Known vulnerabilities of the locked packages; needs PyPI's data about them. Fails for a package that could not be audited.
audit: setup
	@[ -x .audit/bin/pip-audit ] || { $(BIN)/python -m venv .audit && .audit/bin/pip --disable-pip-version-check install --quiet pip-audit; }
	@.audit/bin/pip-audit --strict --disable-pip --require-hashes -r requirements/image.txt

# What deploy/ has of the shipped rules and dashboards. A test compares it.
deploy-files: setup
	@$(BIN)/python -m deploy.generate

clean:
	rm -rf .venv .matrix .audit build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis ./*.egg-info packaging/agent/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
