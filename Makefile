# Every habit of this repository is a target; `make` alone lists them. `.venv` is made on first use
# and brought up to date when requirements-dev.txt or pyproject.toml change.

PYTHON ?= python3
PYTEST_ARGS ?=
JOBS ?= 2
SPREAD = -n $(JOBS) --dist worksteal

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check
STATEKIT := $(VENV)/bin/statekit

# Stamps of a setup: each is written last, so a setup that broke off is done again.
MADE := $(VENV)/.made
LOCKED := $(VENV)/.locked
READY := $(VENV)/.ready

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.SUFFIXES:

##@ Everyday

.PHONY: help
help:  ## Show this list
	@awk -F ':.*## ' '/^##@ / { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { printf "  make %-16s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: setup
setup: $(READY)  ## Make .venv (each target does so itself)
	@echo "setup: $(VENV) is ready"

.PHONY: generate
generate: $(READY)  ## Write the adapters from the schemas
	$(STATEKIT) generate

.PHONY: vet
vet: $(READY)  ## Check the schemas' decisions against the rules
	$(STATEKIT) vet

.PHONY: review
review: $(READY)  ## Show each model's values, their bytes, and why
	$(STATEKIT) review

.PHONY: demo
demo: $(READY)  ## Run both models on a real encoder, and compare
	$(PY) tests/demo/run.py

.PHONY: test
test: $(READY)  ## Run the tests (PYTEST_ARGS='-k ring' for some)
	@# One Ray cluster, so in one process; none of its tests may be asked for.
	$(PY) -m pytest tests/ray -m "not slow and not soak" $(PYTEST_ARGS) || [ $$? -eq 5 ]
	$(PY) -m pytest -m "not ray and not slow and not fullsize and not soak" $(SPREAD) $(PYTEST_ARGS)

##@ Before a commit

.PHONY: check
check: lint type generate-check vet docs-check docs-site build test-slow test  ## Run every gate, as CI does

.PHONY: fmt
fmt: $(READY)  ## Fix and format the code
	$(PY) -m ruff check --fix
	$(PY) -m ruff format

.PHONY: lint
lint: $(READY)  ## Check lint and format
	$(PY) -m ruff check
	$(PY) -m ruff format --check

.PHONY: type
type: $(READY)  ## Check types, with two checkers
	$(PY) -m mypy
	$(PY) -m basedpyright

.PHONY: generate-check
generate-check: $(READY)  ## Check that the adapters match the schemas
	$(STATEKIT) generate --check

.PHONY: docs
docs: $(READY)  ## Write the generated reference pages
	$(PY) -m statekit_codegen.reference docs

.PHONY: docs-check
docs-check: $(READY)  ## Check that the reference pages match the code
	$(PY) -m statekit_codegen.reference docs --check

.PHONY: docs-site
docs-site: $(READY)  ## Build the site of docs/ into build/site (offline)
	@mkdir -p build
	@# Not --quiet: warnings that are not shown are not counted either.
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict -f docs/site/mkdocs.yml >build/site.log 2>&1 || \
	    { cat build/site.log; exit 1; }
	@echo 'docs-site: build/site/index.html'

.PHONY: build
build: $(READY)  ## Build the sdist, and from it the wheel, into dist/
	rm -rf dist
	$(PY) -m build --no-isolation

##@ Now and then

.PHONY: test-slow
test-slow: $(READY)  ## Run the tests that `make test` leaves out
	$(PY) -m pytest tests/ray -m "slow and not soak" $(PYTEST_ARGS) || [ $$? -eq 5 ]
	$(PY) -m pytest --ignore tests/ray -m "slow and not fullsize and not soak" $(SPREAD) $(PYTEST_ARGS)

.PHONY: test-full
test-full: $(READY)  ## Run the tests, the 352x640 encoder included (slow)
	$(PY) -m pytest -m "not soak" $(PYTEST_ARGS)

.PHONY: test-soak
test-soak: $(READY)  ## Drive managers under pressure for minutes
	$(PY) -m pytest -m soak $(PYTEST_ARGS)

.PHONY: test-ray
test-ray: $(READY)  ## Drive replicas on a Ray cluster for minutes
	$(PY) -m pytest tests/ray -m soak $(PYTEST_ARGS)

.PHONY: test-gpu
test-gpu: $(READY)  ## Park and restore on CUDA, measured (says so without)
	$(PY) tests/gpu/park_on_cuda.py

.PHONY: browser
browser:  ## Install Chromium, for the tests of pages (Debian, root)
	apt-get update -qq
	apt-get install -qq --no-install-recommends chromium chromium-driver >/dev/null

.PHONY: bench
bench: $(READY)  ## Measure against baselines (docs/benchmarks.md)
	@mkdir -p .benchmarks
	$(PY) -m pytest tests/benchmarks -q --benchmark-only --benchmark-quiet --benchmark-disable-gc \
	    --benchmark-json=.benchmarks/latest.json $(PYTEST_ARGS)
	$(PY) -m tests.benchmarks.report .benchmarks/latest.json docs/benchmarks.md

.PHONY: golden-update
golden-update: $(READY)  ## Write the goldens from what is generated now
	$(PY) -m pytest tests/golden tests/codegen/scaffold/test_drafts.py --golden-update

.PHONY: lock
lock: $(MADE)  ## Write requirements-dev.txt (LOCK_ARGS=--upgrade)
	$(PIP) install -qq 'uv>=0.8'
	$(PY) -m uv pip compile --quiet --universal --python-version 3.10 --extra dev $(LOCK_ARGS) \
	    --annotation-style line --custom-compile-command 'make lock' \
	    --output-file requirements-dev.txt pyproject.toml requirements-dev.in
	@# What torch needs beside it depends on its build (CPU or CUDA): left to pip.
	sed -i.bak -E '/^(cuda|nvidia)-|^triton==/d' requirements-dev.txt
	rm requirements-dev.txt.bak

.PHONY: clean
clean:  ## Remove build outputs and caches (not .venv)
	rm -rf build dist .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find codegen docs statekit tests -name __pycache__ -type d -prune -exec rm -rf {} +

# --- setup ---------------------------------------------------------------------------------------

$(MADE):
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' || \
	    { echo 'setup: Python 3.10 to 3.13 is needed; name one: make PYTHON=python3.12' >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(LOCKED): requirements-dev.txt $(MADE)
	@rm -f $@
	@echo 'setup: installing the locked requirements; takes a few minutes the first time'
	$(PIP) install -qq -r requirements-dev.txt
	@touch $@

# Ready is ready here: a .venv that came along with a copied tree still runs the code it came from.
$(READY): pyproject.toml statekit/_version.py $(LOCKED) $(if $(filter $(CURDIR),$(file <$(READY))),,FORCE)
	@rm -f $@
	$(PIP) install -qq --no-deps --no-build-isolation --editable .
	@echo '$(CURDIR)' > $@

FORCE:
