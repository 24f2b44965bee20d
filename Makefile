# make train | test | lint | prove | docs | warm-start: each installs into .venv first where that is missing or out of date.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# The version of the Python in the environment, and of one that is asked for by PYTHON=...; "old" where it is too old.
VERSION = import sys; print("%d.%d" % sys.version_info[:2] if sys.version_info >= (3, 11) else "old")
NEEDED = import sys; sys.exit(None if sys.version_info >= (3, 11) else "error: fctncalling needs Python 3.11 or newer, found $(PYTHON) = %d.%d: make PYTHON=python3.11 ..." % sys.version_info[:2])
FOUND := $(shell test -x $(BIN)/python && $(BIN)/python -c '$(VERSION)')
ASKED := $(if $(filter file,$(origin PYTHON)),,$(shell $(PYTHON) -c '$(VERSION)'))
# An environment of another Python is of no use: it is made anew.
STALE := $(if $(FOUND),$(filter-out $(or $(ASKED),$(FOUND)),$(FOUND))$(filter old,$(FOUND)),yes)

# Waiting threads sleep: on a busy machine spinning ones cost more than ten times the work.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: venv train test lint prove docs warm-start

venv: $(INSTALLED)

ifneq ($(STALE),)
.PHONY: $(INSTALLED)
endif

$(INSTALLED): requirements.txt setup.py pyproject.toml
	@test -z "$(STALE)" || $(PYTHON) -c '$(NEEDED)'
	@test -z "$(STALE)" || $(PYTHON) -m venv --clear $(VENV)
	$(BIN)/pip install -r requirements.txt -e .
	touch $@

train: $(INSTALLED)
	$(BIN)/python train_fctncalling.py

# The tests of a file stay in one worker: they share what is slow to make.
test: $(INSTALLED)
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p fctncalling -m train_fctncalling -m evaluate_fctncalling
	$(BIN)/pyright --pythonpath $(BIN)/python

prove: $(INSTALLED)
	$(BIN)/python -m pytest -m 'prove or hypothesis' --hypothesis-profile prove

docs: $(INSTALLED)
	$(BIN)/pip install -q -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'Open site/index.html'

warm-start: $(INSTALLED)
	$(BIN)/python -m fctncalling.lab.embedded.make_model
