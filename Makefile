# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
PIP = $(VENV)/bin/python -m pip --disable-pip-version-check
# Of what is installed little is imported, and that is compiled then.
INSTALL = $(PIP) install -q --no-compile -c constraints.txt

.PHONY: demo test slow mutants check format surface pages bench bench-quick gpu docs clean

demo: $(VENV)/installed
	$(VENV)/bin/holdfast demo

test: check
	$(VENV)/bin/python -m pytest --durations=10

slow: $(VENV)/installed-test
	HOLDFAST_SHAPES=1 $(VENV)/bin/python -m pytest -m ''

mutants: $(VENV)/installed-test
	$(VENV)/bin/python -m benchmarks.mutants

check: $(VENV)/installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/pyright

format: $(VENV)/installed-test
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

surface: $(VENV)/installed-test
	$(VENV)/bin/python tests/surface.py
	$(VENV)/bin/python tests/profile_pages.py

pages: $(VENV)/installed
	$(VENV)/bin/python docs/fill.py

bench: $(VENV)/installed-test
	$(INSTALL) -e '.[bench]'
	$(VENV)/bin/python -m benchmarks

bench-quick: $(VENV)/installed-test
	$(VENV)/bin/python -m benchmarks.quick

gpu:
	PYTHONPATH=src $(PYTHON) -m benchmarks.gpu

docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/python -m mkdocs build --strict
	@echo 'open build/site/index.html'

# That of an older Python takes three times as long to choose versions; where no newer one can be had, it does.
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	-$(PIP) install -q --upgrade pip

$(VENV)/installed: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e .
	touch $@

$(VENV)/installed-docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e '.[docs]'
	touch $@ $(VENV)/installed

$(VENV)/installed-test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(INSTALL) -e '.[test]'
	touch $@ $(VENV)/installed $(VENV)/installed-docs

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache
