# Everything runs in an environment of its own, made on first use from python3 alone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-slow lint fuzz bench matrix evidence evidence-small docs studies-small clean

demo: $(VENV)/.demo
	$(BIN)/noisewise demo

test: lint
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

# What takes longer: statistical checks at full number, processes and clusters, other models.
test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# A hundred thousand inputs to whatever reads any; FUZZ_SEED=1 tries others.
FUZZ_SEED ?= 0
fuzz: $(VENV)/.dev
	NOISEWISE_FUZZ=9000 NOISEWISE_FUZZ_SEED=$(FUZZ_SEED) $(BIN)/python -m pytest -n 2 tests/fuzz

# The wheel in bare environments: every supported Python, lowest and newest dependencies.
matrix: $(VENV)/.dev
	$(BIN)/python tests/matrix.py

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# Everything that pages quote, from one commit, into evidence/; a run that was cut off goes on. DATA=DIR: the real tables.
DATA ?= ../shared/data
evidence: $(VENV)/.dev
	$(BIN)/python -m benchmarks.evidence --data $(DATA)

evidence-small: $(VENV)/.dev
	$(BIN)/python -m benchmarks.evidence --small --data $(DATA)

# The site, docs/_build/html: offline, its pages run, every warning an error.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Small versions of the papers' tables and figures: ten minutes each on two cores. Adult's folder: ADULT=DIR; that of
# naval, kin8nm and wine: REGRESSIONS=DIR.
ADULT ?= ../shared/data/adult
REGRESSIONS ?= ../shared/data
studies-small: $(VENV)/.dev
	$(BIN)/noisewise study figure1
	$(BIN)/noisewise study table1 --fits 60
	$(BIN)/noisewise study table2 --fits 60
	$(BIN)/noisewise study table3 --fits 3 --data $(ADULT)
	$(BIN)/noisewise study adult --fits 3 --epochs 100 --data $(ADULT)
	$(BIN)/noisewise study full-rank --fits 3 --epochs 20
	$(BIN)/noisewise study data-sharing --fits 2 --epochs 5 --parts starts
	$(BIN)/noisewise study sep-mixture --fits 3
	$(BIN)/noisewise study sep-regression --fits 1 --methods sep,dp-sep,line,private-line --data $(REGRESSIONS)

clean:
	rm -rf $(VENV) build dist *.egg-info

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[demo]'
	touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: $(VENV)/.demo
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@
