# Each target sets up what it needs. PYTHON chooses the interpreter from which the environment is made.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo docs test coverage test-networks test-slow test-lowest dist test-dist check lint types bench bench-others clean
.DEFAULT_GOAL := test

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

demo: $(STAMP)  ## learn from digits turned by up to 90 degrees how far they were turned; under two minutes on two cores
	rm -rf out/demo
	$(BIN)/lila train digits --transform partially-rotated --out out/demo/run
	@$(BIN)/lila show out/demo/run --picture out/demo/ranges.png > out/demo/learned.txt
	@$(BIN)/lila report out/demo/run --out out/demo/report.html > out/demo/log.txt
	@echo
	@echo "The digits were turned by up to 90 degrees, and nothing said so. Look at what was learned:"
	@echo "  out/demo/ranges.png   a picture: the ranges during training, and digits before and after"
	@echo "  out/demo/report.html  a report for the browser, with sliders through the transformations"
	@echo "  out/demo/learned.txt  the same in words; or: $(BIN)/lila show out/demo/run"

# The documentation has an environment of its own. Tutorials are run once, and again when they change.
$(VENV)-docs/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-docs
	$(VENV)-docs/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

docs: $(VENV)-docs/.installed  ## the documentation as web pages, in docs/_build/html; every warning is an error
	$(VENV)-docs/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

test: $(STAMP)  ## the tests that belong to every change
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" -q

coverage: $(STAMP)  ## which lines no fast test runs; tracing makes the tests take about 1.4 times as long
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" -q --cov --cov-report=term:skip-covered

# Networks of timm and Hugging Face need torchvision and more, so they are tested in an environment of their own.
test-networks:  ## stock networks: audit, evidence beside the oracle, a run by name
	$(PYTHON) -m venv $(VENV)-networks
	$(VENV)-networks/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[networks]'
	$(VENV)-networks/bin/python -m pytest -m networks tests/stock_networks -q

test-slow: $(STAMP)  ## the statistical tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m slow -q

# KEEP names packages that stay at the version of constraints.txt, as `make test-lowest KEEP="torch torchvision"`.
KEEP ?=
TESTS ?= tests
test-lowest:  ## the tests with the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --clear $(VENV)-lowest
	$(PYTHON) .ci/lowest_versions.py --keep $(KEEP) > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python -m pip install --quiet --disable-pip-version-check -c $(VENV)-lowest/lowest.txt -e '.[test]'
	$(VENV)-lowest/bin/python -m pytest -n 2 --dist worksteal -m "not slow" -q -W ignore::DeprecationWarning $(TESTS)

dist:  ## the source distribution and the wheel, as a package index takes them
	$(PYTHON) -m venv $(VENV)-dist
	$(VENV)-dist/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt build twine
	rm -rf dist
	$(VENV)-dist/bin/python -m build --outdir dist .
	$(VENV)-dist/bin/python -m twine check --strict dist/*

test-dist: dist  ## install the wheel into a clean environment, and do there what the README says first
	$(PYTHON) .ci/try_wheel.py dist/*.whl $(VENV)-clean

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

check: lint types test  ## everything that CI asks

bench: $(STAMP)  ## cost of a hyper-step in units of a parameter epoch
	$(BIN)/lila bench

# laplace-torch asks for torchvision but has no use for it, and one that does not fit torch cannot be imported.
bench-others:  ## what a user would choose instead, on the same work
	$(PYTHON) -m venv $(VENV)-others
	$(VENV)-others/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(VENV)-others/bin/python -m pip uninstall --quiet --yes torchvision
	$(VENV)-others/bin/python -m lila.benchmarks.laplace_torch
	$(VENV)-others/bin/python -m lila.benchmarks.cross_validation

clean:
	rm -rf $(VENV) $(VENV)-docs $(VENV)-networks $(VENV)-others $(VENV)-lowest $(VENV)-dist $(VENV)-clean docs/_build out dist build
