PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Without --no-compile, pip compiles all files of all packages, most of which are never imported: a minute.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Where compiled files are forbidden, every process would compile all that it imports: ten seconds.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo space docs docs-publish tutorials test test-slow test-gpu test-newest test-oldest fuzz lint release \
	release-check clean

# Installs the package and shows what it does.
demo: $(VENV)/installed
	$(BIN)/python examples/demo.py --output demo.html

# Shows the same in a browser, for any sentence: http://127.0.0.1:7860
space: $(VENV)/installed
	$(PIP) '.[app]'
	$(BIN)/python examples/space/app.py

# Builds the documentation site; to read it with its search: python -m http.server --directory site
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# Adds the site of this version to the branch gh-pages as the newest, beside the sites of earlier versions, and pushes it.
docs-publish: $(VENV)/installed-docs
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 mike deploy --push --update-aliases $(VERSION) latest
	PATH="$(abspath $(BIN)):$$PATH" NO_MKDOCS_2_WARNING=1 mike set-default --push latest

VERSION = $(shell sed -nE 's/^__version__ = "([0-9]+\.[0-9]+).*/\1/p' src/hf_structure/version.py)

# Runs the notebooks of docs/tutorials and saves them with what comes out.
tutorials: $(VENV)/installed-dev
	PATH="$(abspath $(BIN)):$$PATH" OMP_NUM_THREADS=1 $(BIN)/python docs/tutorials/run.py

# A process for each core. One that is done takes tests from the end of another's, so that most modules stay whole, and
# what their tests share is made once.
WORKERS = -n auto --dist worksteal

# Installs what the tests need, and runs them.
test: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS)

# What `test` leaves out: compiled code, several processes, killed ones; and new random inputs for what has such.
test-slow: $(VENV)/installed-dev
	$(PIP) --editable '.[ray,app]' playwright
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) -m slow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(WORKERS) -m hypothesis --hypothesis-profile new

# What a GPU computes, beside a processor. `test` runs the same on a device that pretends to be one.
test-gpu: $(VENV)/installed-dev
	CUDA_VISIBLE_DEVICES=0 $(BIN)/python -m pytest -k gpu tests/models

# The tests with the newest release of every dependency, in a new environment of their own without constraints. On Linux
# torch comes with CUDA, 5 GB. What was installed is in $(VENV)-newest/versions.txt.
test-newest:
	$(PYTHON) -m venv --clear $(VENV)-newest
	$(VENV)-newest/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev,app,tutorials]'
	$(VENV)-newest/bin/python -m pip freeze --exclude-editable > $(VENV)-newest/versions.txt
	OMP_NUM_THREADS=1 $(VENV)-newest/bin/python -m pytest $(WORKERS)

# The tests with the oldest torch and transformers that setup.cfg allows, in an environment of their own. On Linux that
# torch comes with CUDA, 5 GB.
OLDEST = $(shell sed -nE 's/^ *(torch|transformers)>=([0-9.]+).*/\1==\2.0/p' setup.cfg)
test-oldest:
	test -x $(VENV)-oldest/bin/python || $(PYTHON) -m venv $(VENV)-oldest
	grep -vE '^(torch|transformers|huggingface_hub|tokenizers)==' constraints.txt > $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c $(VENV)-oldest/constraints.txt \
		--editable '.[dev]' $(OLDEST)
	OMP_NUM_THREADS=1 $(VENV)-oldest/bin/python -m pytest $(WORKERS)

# Damages N files of every kind, and model folders, that must be read or refused in one line, and kills every script
# that can go on KILLS times: make fuzz N=1000 KILLS=5
N ?= 1000
KILLS ?= 5
fuzz: $(VENV)/installed-dev
	OMP_NUM_THREADS=1 HF_STRUCTURE_FUZZ=$(N) HF_STRUCTURE_KILLS=$(KILLS) $(BIN)/python -m pytest $(WORKERS) --timeout 0 \
		-m "slow or not slow" tests/test_fuzz.py tests/examples/test_kills.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --project pyproject.toml --pythonpath $(BIN)/python

# Builds into dist/: the sdist, the wheel, and a wheel for each model of model_cards/.
release:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) build
	$(BIN)/python .ci/release.py

# What a release must pass; see "A release" in CONTRIBUTING.md. The archives are left in dist/.
release-check: $(VENV)/installed-docs docs test-newest
	$(PIP) --editable '.[release]'
	$(BIN)/python .ci/release_check.py

$(VENV)/installed: setup.cfg setup.py pyproject.toml constraints.txt $(shell find src -name '*.py' -o -name '*.safetensors')
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) .
	touch $@

$(VENV)/installed-dev: setup.cfg setup.py pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	touch $@

$(VENV)/installed-docs: setup.cfg setup.py pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-newest $(VENV)-oldest .venv-release build dist site src/*.egg-info demo.html
