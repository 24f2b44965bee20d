# make train | test | lint | prove | warm-start: each installs into .venv first where that is missing or out of date.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

# Waiting threads sleep: on a busy machine spinning ones cost more than ten times the work.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: venv train test lint prove warm-start

venv: $(INSTALLED)

$(INSTALLED): requirements.txt setup.py
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -r requirements.txt -e .
	touch $@

train: $(INSTALLED)
	$(BIN)/python train_fctncalling.py

test: $(INSTALLED)
	$(BIN)/python -m pytest

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p fctncalling -m train_fctncalling -m evaluate_fctncalling
	$(BIN)/pyright --pythonpath $(BIN)/python

prove: $(INSTALLED)
	$(BIN)/python -m pytest -m prove

warm-start: $(INSTALLED)
	$(BIN)/python -m fctncalling.cli.warm_start --tokenizer data/embedded/model
