# `make demo` and `make test` set up what they need; the second time they start at once.  `make coverage` writes
# docs/coverage.md anew.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/
# as a path, so that the package is found from the directory above the checkout too
EDITABLE := --config-settings editable_mode=compat --editable

.PHONY: demo test coverage clean

demo: $(VENV)/demo.stamp
	$(RUN)python -m bench.fused --quick --peers numpy

test: $(VENV)/dev.stamp
	$(RUN)ruff check .
	$(RUN)mypy
	$(RUN)lint-imports
	$(RUN)python -m pytest -q --numprocesses auto

coverage: $(VENV)/dev.stamp
	$(RUN)python -m tests.coverage.report

clean:
	rm -rf $(VENV)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/demo.stamp: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(RUN)python -m pip install --quiet $(EDITABLE) . "scipy>=1.13"
	touch $@

$(VENV)/dev.stamp: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(RUN)python -m pip install --quiet $(EDITABLE) ".[dev]"
	touch $@ $(VENV)/demo.stamp
