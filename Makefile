# The project's commands. `make` alone lists them.
#
# Everything is installed into .venv and .cache inside this checkout, pip's own cache included, so that deleting the folder
# deletes it all. Only `make test-engines` and `.ci/install --thorough` keep something elsewhere: a real vLLM (3.5 GB), llama.cpp and Triton in
# $XDG_CACHE_HOME/llm-phase-sidecar, so that the next clone finds them there.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Any Python from 3.11 on: `make test PYTHON=python3.12`. Used once, to make .venv.
PYTHON ?= python3
# Handed to the command behind a target: `make test ARGS="-k sse -x"`, `make demo ARGS=--help`.
ARGS ?=
# Of this call alone: a `make` that a command starts, such as one of the pages' in the tests, has its own.
unexport ARGS
MAKEOVERRIDES =

# Of tests: one more than cores, because some wait for a browser or another process.
WORKERS = $(shell expr $$(nproc) + 1)

# Tests that have a target of their own are in none of `make test` and `make test-long`.
OTHERS := not bench and not engine and not live and not drawn and not thorough and not release

# Of test-wheel: the rooms whose modules carry bytes, or that the wheel compiles. What takes longest comes first, so that it is not waited for.
ON_THE_WHEEL ?= tests/histories tests/test_builds.py $(addprefix tests/,proxy answers timeline classify observe ledger objectives pod engines config metrics logs accounts) \
	$(addprefix tests/test_,$(addsuffix .py,abort allocation_budget app attribution beside_traffic engine_stalls hostile_labels lifecycle pages pool_gone serving shutdown slo slo_mistakes slo_silence walk_budget wiring))

BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
export PIP_CACHE_DIR := $(CURDIR)/.cache/pip
# Container images set it. Without bytecode, each worker of the tests and each process that they start compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-long thorough .cache/on-the-wheel/.made test-wheel prove wheels release test-more test-benches test-live garden test-engines mutants bounds fairness bench bench-full bench-wheels profile bench-incidents score ablate bench-first-page query-time fuzz soak idle-edge drains demo-numbers engines-news docs lock screenshots dashboards-drawn lint

help: ## what can be done here
	@echo 'llm-phase-sidecar: splits the latency of LLM requests into five phases. Start with: make demo'
	@echo
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 22
	@echo
	@echo 'More of one:  make test ARGS="-k sse -x"    make demo ARGS=--help    make test PYTHON=python3.12'

demo: .venv/.demo ## simulated engine, sidecar and mixed load, phases and pages live in this terminal; ARGS="--incident all" breaks it
	@$(BIN)/sidecar demo $(ARGS)

test: .venv/.dev ## the test suite on all cores, two minutes on two; ARGS="-n0 -k sse": a few tests, at once
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m '$(OTHERS) and not long' $(ARGS)

test-long: .venv/.dev ## the tests that take seconds each: long stories, and what Prometheus, Alertmanager and a browser judge: five minutes
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m '$(OTHERS) and long' $(ARGS)

# The place for every proof about the wheel that the image installs: cd .cache/on-the-wheel && venv/bin/python -m pytest ..., or -m bench.soak.
# It is looked at each time, and made again as far as something has changed.
.cache/on-the-wheel/.made: .venv/.dev
	@$(BIN)/python -m tools.on_the_wheel

test-wheel: .cache/on-the-wheel/.made ## the tests of bytes and numbers on the compiled wheel that the image installs: five minutes; ON_THE_WHEEL=tests/proxy: one room
	cd .cache/on-the-wheel && venv/bin/python -m pytest -n $(WORKERS) --dist worksteal -m '$(OTHERS)' $(ON_THE_WHEEL) $(ARGS)

prove: .cache/on-the-wheel/.made .venv/.fuzz ## every proof about bytes on that wheel: a quarter of an hour; ARGS=--only=soak,garden: some of them; ARGS=--long: soak and fuzz for ten minutes each
	@$(BIN)/python -m tools.prove $(ARGS)

wheels: .venv/.dev ## the compiled wheel, as the image installs it, and the pure one, into dist/: a minute or two
	@$(BIN)/python -m tools.on_the_wheel --dist

release: .venv/.dev .venv/.release ## all that a release publishes, into dist/release/, built twice, compared and tried: twenty minutes; ARGS=--check: only tried
	@$(BIN)/python -m tools.release $(ARGS)

thorough: .venv/.dev ## what is too long for .ci/run, with a record of each part: 115 minutes and what is left of the parts beside, at once or bit by bit; ARGS=--status: what is left
	@$(BIN)/python -m tools.thorough $(ARGS)

test-more: .venv/.dev ## what `make test` and `make test-long` play a part of, whole: all suites of the rules on Prometheus 3.x too, longer histories: ten minutes
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m thorough $(ARGS)

test-benches: .venv/.dev ## the simulation against queueing theory, the capacity formulas, the incident bench's runs: a minute
	$(BIN)/pytest -n auto --dist worksteal -m bench $(ARGS)

test-live: .venv/.dev ## what needs real time and the processor when it needs it, such as incidents with a real Prometheus: half an hour
	$(BIN)/pytest -m live $(ARGS)

garden: .venv/.dev ## all hostile requests and answers of tests/garden through the sidecar, nginx and HAProxy: two minutes; a part of test-live
	$(BIN)/pytest -m live tests/garden $(ARGS)

test-engines: .venv/.dev ## the tests that start real engines on the CPU; the first run downloads 3.5 GB and compiles for 10 minutes; ARGS="-m core tests/real": those of .ci/run, which compile nothing
	$(BIN)/pytest -m engine $(ARGS)

mutants: .venv/.dev ## every mistake that an alert rule can have, against the scenarios: some ten minutes on two cores, and it needs promtool; ARGS=--recorded: only whether the last complete run was on these rules
	$(BIN)/python -m tests.alert_rules.mutants $(ARGS)

bounds: .venv/.dev ## bounds in milliseconds, measured on this machine
	$(BIN)/python -m bench.bounds $(ARGS)

fairness: .venv/.dev ## streams' delays while hostile writers attack, beside nginx: 3 minutes with ARGS=--quick, 15 with ARGS=--report
	$(BIN)/python -m bench.fairness $(ARGS)

bench: .venv/.dev ## what the sidecar costs beside nginx and vllm-router, in turns: five minutes; ARGS=--check: is CPU far above its bounds, ARGS=--help: all that it takes
	$(BIN)/python -m bench.peers $(ARGS)

bench-full: .venv/.dev ## the same beside HAProxy, Envoy, sglang-router and LiteLLM too, with prompts, saturation, idle streams: an hour at most
	$(BIN)/python -m bench.peers --full $(ARGS)

bench-wheels: .venv/.dev ## a request and an event on this tree's wheel beside the wheel of an earlier commit, in turns: a quarter of an hour; ARGS=--help: how to read it, ARGS="--only event --rounds 2": a quick look
	$(BIN)/python -m bench.two_wheels $(ARGS)

profile: .venv/.dev ## where the sidecar spends its time on a token and on a request: flame graphs, a minute or so; ARGS="request --native"
	$(BIN)/python -m bench.profile $(ARGS)

bench-incidents: .venv/.dev ## one incident of each kind against the shipped alert rules: four minutes; ARGS=--health: an hour, while nothing is broken; ARGS="--kinds hang --seeds 10-12": others
	$(BIN)/python -m bench.incidents $(ARGS)

score: .venv/.dev ## does the verdict name what broke, on 20 shapes of faults that the commit draws: 15 to 17 minutes on two cores, and it needs promtool
	$(BIN)/python -m bench.score $(ARGS)

ablate: .venv/.dev ## what the verdict loses without each of its rules, on evidence that is recorded once: half an hour on two cores
	$(BIN)/python -m bench.roots ablate --shapes 24 --draw held $(ARGS)

bench-first-page: .venv/.dev ## from `sidecar demo` to its first page, five kinds five times: an hour on a machine that does nothing else; ARGS="--runs 1": a fifth
	$(BIN)/python -m bench.first_page $(ARGS)

query-time: .venv/.dev ## seconds of the Fleet dashboard's queries at 64 pods of 10 lanes, with llm-dashboards.yml and without: five minutes, and it needs Prometheus
	$(BIN)/python -m bench.query_time $(ARGS)

demo-numbers: .venv/.dev ## the operating points and the usual values that the demo ships, written anew: eleven minutes
	$(BIN)/python -m tools.demo_numbers points
	$(BIN)/python -m tools.demo_numbers baseline

fuzz: .venv/.dev .venv/.fuzz ## every parser, coverage-guided: an hour each, 21 hours on one core; ARGS="--minutes=4": all of them in four minutes
	$(BIN)/python -m tests.fuzz $(ARGS)

soak: .venv/.dev ## 2,000 streams through a network that breaks once a second, then drains and fairness: twenty minutes; ARGS="--minutes=2": only the streams, for so long
	$(BIN)/python -m bench.soak $(ARGS)
	$(if $(ARGS),,$(MAKE) drains)
	$(if $(ARGS),,$(MAKE) fairness ARGS=--quick)

idle-edge: .venv/.dev ## 100,000 requests to an engine that closes idle connections and restarts each second: under a minute
	$(BIN)/python -m bench.idle_edge $(ARGS)

drains: .venv/.dev ## fifty sidecars are told to stop under streams, and none is cut: five minutes; ARGS="--drains 10": one
	$(BIN)/python -m bench.drains $(ARGS)

engines-news: .venv/.dev ## which strings of ours stand no longer in an engine's source: ARGS="vllm=FOLDER sglang=FOLDER", copies that you bring
	@$(BIN)/python -m tools.engines_news $(ARGS)

docs: .venv/.dev ## what docs/ and the runbooks take from the code: written anew; a test holds them to it
	$(BIN)/python -m tools.docs

lock: .venv/.dev ## requirements.lock of the container image, with the newest releases that pyproject.toml allows
	$(BIN)/python -m tools.lock

screenshots: .venv/.dev ## the status page under an incident of each phase, as pictures: two minutes, and it needs Chromium
	$(BIN)/python -m tests.browser.screenshots $(ARGS)

lint: .venv/.dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

dashboards-drawn: .venv/.dev ## every dashboard as Grafana's own components draw it, judged, and kept as pictures: a minute; it needs Chromium and npm
	$(BIN)/pytest -n0 -m drawn tests/drawn $(ARGS)
	@echo 'pictures: .cache/drawn/pictures'

# Stamps: a second run is instant, and a changed pyproject installs again.
.venv/.demo: pyproject.toml | .venv/.pip
	@echo 'installing llm-phase-sidecar into .venv'
	@$(PIP) install --quiet --editable '.[demo]'
	@touch $@

.venv/.dev: pyproject.toml | .venv/.pip
	@echo 'installing llm-phase-sidecar and its development tools into .venv'
	@$(PIP) install --quiet --editable '.[demo]' --group dev
	@touch $@

# Where there is no wheel of it, `python -m tests.fuzz` says that nothing ran, and fails under CI.
.venv/.fuzz: pyproject.toml | .venv/.pip
	@$(PIP) install --quiet --only-binary=atheris --group fuzz && touch $@ || echo 'atheris cannot be installed here'

.venv/.release: pyproject.toml | .venv/.pip
	@$(PIP) install --quiet --group release
	@touch $@

# Debian 12 brings pip 23; dependency groups (PEP 735) came with 25.1.
.venv/.pip:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, $(PYTHON) is " + sys.version if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv .venv
	@$(PIP) install --quiet --upgrade 'pip>=25.1'
	@touch $@
