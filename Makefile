# Everything here works from a bare clone with only make and Python >= 3.11.
# Installs are recorded in stamp files inside .venv and repeat only when pyproject.toml or
# constraints.txt change.

PYTHON ?= python3
VENV := .venv
# Where Windows puts programs.
BIN := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# A simulator for tests of learned models. What it asks for (a gym of 2017, gymnasium below 1.0) excludes
# what we need, and no part of it that is used here needs them: without its dependencies.
SIMULATOR := --no-deps 'simglucose>=0.2.11'
# Pinned build backend and no build isolation: the build is as reproducible as the install.
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TYPES := $(BIN)/mypy
PAGES := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

define CHECK_PYTHON
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "counterplan needs Python 3.11 or newer; $(PYTHON) says: $$($(PYTHON) -V 2>&1). Name another: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
endef

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo reproduce test test-slow coverage lint typecheck format docs wheel release pages bench bench-small setup lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1|\2/' | awk -F'|' '{ printf "  %-16s %s\n", $$1, $$2 }'

demo: $(VENV)/.installed-run ## run all three systems on built-in data and write reports to open
	$(BIN)/counterplan demo -o demo

reproduce: $(VENV)/.installed-run ## draw every figure of the papers, small, and check its numbers
	$(BIN)/python -m experiments --all --quick --check -o figures

# While types and docs are checked, what most tests need is compiled beside it, once: workers that start
# together would each do it.
test: lint ## lint, type-check, build the docs, run the tests and every docs snippet
	$(BIN)/pytest -q -m compiles & compiled=$$!; \
	  $(TYPES) && $(PAGES) && $(BIN)/pytest -n auto --dist worksteal -m 'not slow and not compiles'; \
	  passed=$$?; wait $$compiled && exit $$passed

test-slow: $(VENV)/.installed-test ## the tests that take long for a reason
	$(BIN)/pytest -n auto --dist worksteal -m slow

coverage: $(VENV)/.installed-test ## which lines of src the tests run; fails below 90 %
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n auto --dist worksteal
	-$(BIN)/coverage combine --quiet  # processes that were killed on purpose leave broken files
	$(BIN)/coverage report --skip-covered --skip-empty

lint: $(VENV)/.installed-test ## check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

typecheck: $(VENV)/.installed-test ## mypy --strict on src and experiments
	$(TYPES)

format: $(VENV)/.installed-test ## fix style and formatting
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.installed-test ## build the documentation into site/
	$(PAGES)

wheel: $(VENV)/.installed-test ## build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

release: docs ## build wheel, source archive and pages, and try both in empty environments
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/pytest -q tests/test_wheel.py

# Pages of a version are never touched by those of another: each lies in a folder of its own.
pages: ## put the pages of site/ beside those of other versions, in the branch gh-pages (VERSION=0.2.0)
	test -n "$(VERSION)" && test -f site/index.html
	git fetch -q origin gh-pages:gh-pages || git branch gh-pages $$(git commit-tree -m "Pages" $$(git hash-object -w -t tree /dev/null))
	git worktree add pages gh-pages
	rm -rf "pages/$(VERSION)" && cp -r site "pages/$(VERSION)"
	cd pages && { echo '<!doctype html><html lang="en"><meta charset="utf-8"><title>counterplan</title><h1>counterplan</h1><ul>'; \
	  ls -d [0-9]*/ | sort -rV | sed 's|\(.*\)/|<li><a href="\1/index.html">\1</a></li>|'; echo '</ul></html>'; } > index.html
	cd pages && git add -A && git commit -qm "Pages of $(VERSION)" && git push -q origin gh-pages
	git worktree remove --force pages

bench: $(VENV)/.installed-bench ## ratios to plain ways and how cost grows, one process
	$(BIN)/python -m benchmarks.growth

bench-small: $(VENV)/.installed-bench ## a few ratios; fails where one has fallen by half
	$(BIN)/python -m benchmarks.ratios --check

setup: $(VENV)/.installed-dev ## install everything and the git pre-commit hook
	$(BIN)/pre-commit install

lock: ## resolve anew and rewrite constraints.txt (use the oldest supported Python)
	@$(CHECK_PYTHON)
	rm -rf .venv-lock
	$(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet hatchling editables
	.venv-lock/bin/python -m pip install --quiet --no-build-isolation -e '.[dev]'
	.venv-lock/bin/python -m pip install --quiet $(SIMULATOR)
	{ echo "# Exact versions for a reproducible install, test and docs build. Written by \`make lock\`."; \
	  .venv-lock/bin/python -m pip freeze --exclude-editable; } > constraints.txt.new
	mv constraints.txt.new constraints.txt
	rm -rf .venv-lock

clean: ## remove the environment, caches and everything the commands write
	rm -rf $(VENV) .venv-lock demo figures site dist build htmlcov .coverage .benchmarks \
	  .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/pyvenv.cfg:
	@$(CHECK_PYTHON)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.build-backend: constraints.txt | $(VENV)/pyvenv.cfg
	$(INSTALL) hatchling editables
	@touch $@

$(VENV)/.installed-run: EXTRAS := [neural,web]
$(VENV)/.installed-test: EXTRAS := [test,docs]
$(VENV)/.installed-bench: EXTRAS := [test,bench]
$(VENV)/.installed-dev: EXTRAS := [dev]
$(VENV)/.installed-%: pyproject.toml constraints.txt $(VENV)/.build-backend
	$(INSTALL) --no-build-isolation -e '.$(EXTRAS)'
	$(if $(filter %-run,$@),,$(INSTALL) $(SIMULATOR))
	@touch $@
