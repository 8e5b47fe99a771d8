# Everything runs in .venv, made from the lock file. `make help` lists the targets.

PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format bench screenshots lock clean

help: ## list the targets
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: .venv/.made ## make .venv with everything that is locked

.venv/.made: requirements.lock pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

demo: setup ## the console on the simulator; without a terminal the same teardown, headless
	@if [ -t 0 ] && [ -t 2 ]; then \
	  $(BIN)/npa-tui --demo; \
	else \
	  echo "No terminal here: the demo runs headless."; \
	  home=$$(mktemp -d) && trap 'rm -rf "$$home"' EXIT && \
	  $(BIN)/npa simulate --world clean-project --time-scale 0.05 --home "$$home" -- $(BIN)/npa destroy --project demo --all --yes; \
	fi

test: setup ## all tests
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --ignore tests/console
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/console --ignore tests/console/snapshots
	$(BIN)/python -m pytest -q tests/console/snapshots

lint: setup ## ruff, mypy --strict, the allowed imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## every published figure, in one run
	$(BIN)/python -m bench

screenshots: setup ## the walkthrough in screenshots/
	$(BIN)/python -m npa_tui.screenshots

lock: ## the lock file anew (needs uv)
	uv pip compile --generate-hashes --no-header --no-annotate --python-version 3.11 \
	  --extra skypilot --extra terraform --group test --group lint --group build pyproject.toml -o requirements.lock

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
