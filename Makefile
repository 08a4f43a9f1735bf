# Few verbs, the same on a laptop and in CI. `make` alone lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# The first Python of 3.11 or newer; `make setup PYTHON=/path/to/python3` chooses another.
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11 python; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$name" && break; done)
BIN := .venv/bin
# Java of this machine if it is 17 or newer, else the one that set-up fetched. Empty: `java` on the PATH.
WITH_JAVA = $(BIN)/python -m controlplane.java
PIP := $(BIN)/python -m pip --disable-pip-version-check
LOCKS := requirements/build.txt requirements/all.txt requirements/java.txt

.PHONY: help setup demo test test-long check format bench lock dist clean

help:
	@echo 'make setup      .venv with everything, from the lock files'
	@echo 'make demo       set-up, then server, dashboard and a fleet of real queries (DEMO="--minutes 5 --port 9000")'
	@echo 'make test       set-up, then all tests but the long ones (TESTS="tests/unit -k wire")'
	@echo 'make test-long  set-up, then the tests that take a minute or more'
	@echo 'make check      set-up, then formatting, lint, types, the floor of the agent (Python 3.9)'
	@echo 'make bench      set-up, then every benchmark (QUICK=1: the smoke run)'
	@echo 'make lock       writes requirements/*.txt anew;  make dist: both wheels into dist/;  make clean'

setup: .venv/.ready

.venv/.ready: $(LOCKS) pyproject.toml controlplane/java.py
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
	@$(BIN)/python -m controlplane.java --check || { \
		$(PIP) install --quiet --require-hashes --only-binary :all: -r requirements/java.txt && \
		$(BIN)/python -m controlplane.java --wrap; }
	@touch $@
	@echo 'setup: done'

demo: setup
	@exec $(BIN)/controlplane demo $(DEMO)

test: setup
	@$(WITH_JAVA) $(BIN)/python -m pytest $(TESTS)

# pytest ends with 5 where it found no test: that is no failure here.
test-long: setup
	@$(WITH_JAVA) $(BIN)/python -m pytest -m long $(TESTS) || [ $$? -eq 5 ]

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.10 --cache-dir .mypy_cache/agent listeners
	$(BIN)/vermin -t=3.9- --violations --no-tips listeners

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	@for script in $(filter-out bench/serving.py,$(wildcard bench/*.py)); do echo "== $$script"; \
		$(WITH_JAVA) $(BIN)/python "$$script" $(if $(QUICK),--quick); done

# uv resolves for every Python and platform at once; it is not needed for anything else.
lock:
	@command -v uv >/dev/null || { echo 'lock: uv is needed: pip install uv' >&2; exit 2; }
	@cd requirements && for name in build java; do uv pip compile $(UV_FLAGS) $$name.in -o $$name.txt; done
	@uv pip compile $(UV_FLAGS) pyproject.toml $(EXTRAS) --extra dev -o requirements/all.txt
	@uv pip compile $(UV_FLAGS) pyproject.toml $(EXTRAS) -c requirements/all.txt -o requirements/image.txt

EXTRAS := --extra server --extra postgres --extra pipeline
UV_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
	--default-index https://pypi.org/simple --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock'

dist: setup
	@$(PIP) wheel --quiet --no-deps --no-build-isolation -w dist .
	@$(BIN)/python packaging/agent_wheel.py dist

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis ./*.egg-info packaging/agent/build
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
