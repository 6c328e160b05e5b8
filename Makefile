# Each target sets up what it needs. PYTHON chooses the interpreter from which the environment is made.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test test-slow check lint types bench clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## learn a rotational invariance of points in the plane, and draw it
	$(BIN)/python examples/toy.py --out out/toy

test: $(STAMP)  ## the tests that belong to every change
	$(BIN)/python -m pytest -n 2 -m "not slow" -q

test-slow: $(STAMP)  ## the statistical tests
	$(BIN)/python -m pytest -n 2 -m slow -q

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

check: lint types test  ## everything that CI asks

bench: $(STAMP)  ## cost of a hyper-step in units of a parameter epoch
	$(BIN)/python benchmarks/hyperstep.py

clean:
	rm -rf $(VENV) out dist build
