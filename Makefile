# Two commands do everything on a fresh machine with Python 3.10+ and pip: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test check fix bench soak golden picture clean

demo: $(VENV)/.ready
	@$(BIN)/python tools/demo.py

test: check
	$(BIN)/python -m pytest -q -n 2 --dist loadfile

check: $(VENV)/.ready
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy --platform linux
	$(BIN)/mypy --platform darwin
	$(BIN)/mypy --platform win32
	$(BIN)/lint-imports

fix: $(VENV)/.ready
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.ready
	$(BIN)/python bench/run.py

soak: $(VENV)/.ready
	$(BIN)/python -m pytest -q tests/soak

golden: $(VENV)/.ready
	HOLDFAST_REWRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/golden tests/unit

picture: $(VENV)/.ready
	$(BIN)/python tools/transcript.py docs/demo.svg

$(VENV)/.ready: pyproject.toml tools/setup.sh
	PYTHON=$(PYTHON) sh tools/setup.sh $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) .demo .bench .tools
