# `make help` lists the targets. `make profile` needs Python 3.11-3.13 and the package index, nothing else.

VENV    := .venv
TORCH   := .venv-torch
RELEASE := .venv-release
SITE    := .venv-site
OUT     := out
EXAMPLE := $(OUT)/MobileNetV2.mlpackage
MODEL   ?= $(EXAMPLE)
ARGS    ?=
# The first of these that suits is taken, or the one that `make PYTHON=/path/to/python3.12 …` names.
PYTHON  ?=
PYTHONS := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
# Tests in as many processes as there are cores; an idle process takes tests over from a busy one.
PARALLEL := -n auto --dist worksteal
# Tests that belong to `make check`: the documentation, the architecture and its budget.
CHECKED := tests/docs tests/test_architecture.py tests/test_size_budget.py
# On a Mac Core ML itself is measured, through coremltools.
RUNTIME := requirements/build.txt requirements/runtime.txt $(if $(filter Darwin,$(shell uname -s)),requirements/coreml.txt)
LOCK    := --quiet --generate-hashes --strip-extras --allow-unsafe --no-emit-index-url --no-emit-find-links --no-header

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Python compiles the modules of this package once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
# coremltools' progress bars.
export TQDM_DISABLE := 1
# ONNX Runtime's telemetry, where tests and benchmarks import it themselves.
export ORT_DISABLE_TELEMETRY := 1

.DEFAULT_GOAL := help
.PHONY: help profile confirm example test check frontend playground browser long site attack attack-verbs fuzz conformance bench-speed bench-waits bench-verify bench-latency bench-plan bench-recording bench-sweep docs drift lock changelog release clean
.DELETE_ON_ERROR:

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

profile: $(VENV)/.runtime $(filter $(EXAMPLE),$(MODEL)) ## profile MODEL=path (default: a sample); ARGS="…" for more options
	@$(VENV)/bin/coremlscope profile "$(MODEL)" $(ARGS)

confirm: $(VENV)/.dev $(EXAMPLE) ## on a Mac: run each verb that meets Core ML, and write out/confirmed.json, which has no name of yours, to publish
	@tools/mac_verbs.sh $(OUT) || echo "some steps ended otherwise than expected: out/steps.txt" >&2
	@$(VENV)/bin/coremlscope doctor --json $(OUT)/doctor.json
	@$(VENV)/bin/python tools/mac_results.py $(OUT)/every.json $(OUT)/doctor.json $(OUT)/steps.txt $(OUT)/confirmed.json
	@$(VENV)/bin/coremlscope import $(OUT)/confirmed.json

example: $(VENV)/.dev ## record a program with mistakes, and its mended twin (examples/)
	@$(VENV)/bin/python examples/style_transfer/network.py $(OUT)
	@$(VENV)/bin/coremlscope trace -o $(OUT)/slow.html examples/style_transfer/slow.py $(OUT)
	@$(VENV)/bin/coremlscope trace -o $(OUT)/fast.html examples/style_transfer/fast.py $(OUT)

test: $(VENV)/.dev ## run the tests but those of `make check` and of the page, one process per core; ARGS="-n0 --pdb tests/ops -k conv" for some in one process
	$(VENV)/bin/python -m pytest -q $(PARALLEL) $(addprefix --ignore=,$(CHECKED) tests/browser) $(ARGS)

check: $(VENV)/.dev ## lint, formatting, types, layers, and that the documentation is true
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m pytest -q $(PARALLEL) $(CHECKED)
	@tools/check_frontend.sh

frontend: $(VENV)/.dev frontend/node_modules/.package-lock.json ## build the reports' page from frontend/ (needs Node 20.19 or newer)
	$(VENV)/bin/python tools/make_types.py
	cd frontend && npm run --silent build

playground: $(VENV)/.dev frontend/node_modules/.package-lock.json ## build the page that opens dropped models into out/playground (needs Node); ARGS="--docs ADDRESS"
	$(VENV)/bin/python tools/make_playground.py --out $(OUT)/playground $(ARGS)

browser: $(VENV)/.dev frontend/node_modules/.package-lock.json ## test the reports' page in a headless Chromium (needs Node and chromium)
	$(VENV)/bin/python -m pytest -q -n auto --dist loadfile tests/browser $(ARGS)

long: $(TORCH)/.ready ## compare with PyTorch and other references (minutes; downloads torch); ARGS="-k …" for a part
	$(TORCH)/bin/python -m pytest -q -m long $(ARGS)

attack: $(VENV)/.dev ## read damaged files of every form; ARGS="--files 100000 --seed 1 --corpus"
	$(VENV)/bin/python -m tests.long.attack $(ARGS)

attack-verbs: $(VENV)/.dev ## run verbs of the command on damaged files, or kill them; ARGS="--runs 10000 --seed 1" or "--kills 30"
	$(VENV)/bin/python -m tests.long.attack.verbs $(ARGS)

fuzz: $(VENV)/.fuzz ## fuzz a reader, TARGET=mlmodel (default), zip, mil …; ARGS="-max_total_time=600" for libFuzzer
	$(VENV)/bin/python -m tests.long.fuzz $(or $(TARGET),mlmodel) $(or $(ARGS),-max_total_time=60)

bench-waits: $(VENV)/.dev ## time whole commands next to an older version (minutes; needs its commit); ARGS="--rounds 9 --only 'nmp: plan'"
	$(VENV)/bin/python -m benchmarks.waits --page docs/waits.md $(ARGS)

bench-verify: $(TORCH)/.ready ## count verdicts on sound conversions, unlike classifiers and damaged twins; ARGS="--seeds 0 --twins"; TIMES=1 times it next to an older version
	$(TORCH)/bin/python -m $(if $(TIMES),benchmarks.faults.times,benchmarks.faults) $(ARGS)

bench-speed: $(TORCH)/.ready ## time this runtime beside ONNX Runtime, OpenVINO and PyTorch
	$(TORCH)/bin/python -m benchmarks.speed --page docs/speed.md $(ARGS)

conformance: $(TORCH)/.conformance ## run coremltools' own tests; TESTS="path below coremltools …" SAMPLE=k/n ONE_PER_FUNCTION=1 WORKERS=n
	$(TORCH)/bin/python -m benchmarks.conformance $(TESTS) $(addprefix --sample=,$(SAMPLE)) \
	  $(if $(filter 1,$(ONE_PER_CLASS)),--one-per-class) $(if $(filter 1,$(ONE_PER_FUNCTION)),--one-per-function) \
	  $(addprefix --workers=,$(WORKERS)) --output $(OUT)/conformance $(ARGS)

drift: $(VENV)/.dev ## compare results between versions of ONNX Runtime and numbers of threads; ARGS="--engine 1.30.0 MODEL"
	$(VENV)/bin/python -m benchmarks.drift $(ARGS)

bench-plan: $(VENV)/.dev ## compare plans with published ones, every miss listed; ARGS="network wholes encoders times shapes programs left-out rates fit support context speed"
	$(VENV)/bin/python -m benchmarks.plan $(ARGS)

bench-recording: $(VENV)/.dev ## time predictions with and without recording, interleaved; ARGS="--blocks 300 coremltools"
	$(VENV)/bin/python -m benchmarks.recording $(ARGS)

bench-sweep: $(VENV)/.ray ## what sweeps cost, on a quiet machine (an hour); ARGS="workers", "ray", "architectures", "corpus", "cluster --nodes 100"
	RAY_USAGE_STATS_ENABLED=0 $(VENV)/bin/python -m benchmarks.sweeps $(ARGS)

bench-latency: $(VENV)/.dev ## how good latency estimates are on measurements that the fit did not see (minutes)
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m benchmarks.latency -o $(OUT) $(ARGS)

docs: $(VENV)/.dev ## write the JSON Schemas of docs/
	$(VENV)/bin/python tools/make_docs.py

site: $(VENV)/.dev $(SITE)/.ready ## build the documentation into out/site, strictly
	$(VENV)/bin/python tools/make_site.py $(OUT)/docs
	$(SITE)/bin/python -m sphinx --fail-on-warning --keep-going --nitpicky --quiet -b dirhtml $(OUT)/docs $(OUT)/site

lock: $(VENV)/.dev ## pin the requirements anew from requirements/*.in
	cd requirements && for purpose in build runtime dev coreml fuzz ray references conformance release docs mcp; do \
	  ../$(VENV)/bin/pip-compile $(LOCK) --output-file $$purpose.txt $$purpose.in || exit 1; done

changelog: ## print the changes that are not released, or with RELEASE_OF="1.2.0 2026-12-01" move them into CHANGELOG.md
	@python3 tools/make_changelog.py $(RELEASE_OF)

release: $(RELEASE)/.ready ## build the packages and the skill into dist/, with lists of what is in them (CycloneDX; needs Node) and checksums
	rm -rf dist
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(RELEASE)/bin/python -m build --quiet --outdir dist
	$(RELEASE)/bin/cyclonedx-py requirements --pyproject pyproject.toml --mc-type library --output-reproducible \
	  --of JSON --output-file dist/coremlscope.cdx.json requirements/runtime.txt
	cd frontend && npm sbom --silent --package-lock-only --omit dev --sbom-format cyclonedx \
	  | sed -E '/^ *"(serialNumber|timestamp)": /d' > ../dist/coremlscope-page.cdx.json
	cd skills && git archive --format=zip --output=../dist/coremlscope-skill.zip HEAD coremlscope
	cd dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

clean: ## remove everything that make made
	rm -rf $(VENV) $(TORCH) $(RELEASE) $(SITE) $(OUT) build dist frontend/node_modules

$(EXAMPLE): | $(VENV)/.runtime
	@mkdir -p $(OUT)
	@$(VENV)/bin/python -c "from coremlscope.formats.sample import write_sample; write_sample('$@', overwrite=True)"

# Environments: a stamp file says that the pins above it are installed.

$(VENV)/bin/python:
	@$(call make_venv,$(VENV))

$(VENV)/.runtime: $(RUNTIME) pyproject.toml | $(VENV)/bin/python
	@$(call install,$(VENV),--require-hashes $(addprefix -r ,$(RUNTIME)))
	@$(call install,$(VENV),--no-deps --no-build-isolation -e .)
	@touch $@

$(VENV)/.dev: requirements/dev.txt requirements/mcp.txt $(VENV)/.runtime
	@$(call install,$(VENV),--require-hashes -r requirements/dev.txt -r requirements/mcp.txt)
	@touch $@

$(VENV)/.fuzz: requirements/fuzz.txt $(VENV)/.dev
	@$(call install,$(VENV),--require-hashes -r requirements/fuzz.txt)
	@touch $@

$(VENV)/.ray: requirements/ray.txt $(VENV)/.dev
	@$(call install,$(VENV),--require-hashes -r requirements/ray.txt)
	@touch $@

$(TORCH)/bin/python:
	@$(call make_venv,$(TORCH))

$(TORCH)/.ready: requirements/build.txt requirements/dev.txt requirements/references.txt requirements/torch.txt pyproject.toml | $(TORCH)/bin/python
	@$(call install,$(TORCH),--require-hashes -r requirements/build.txt -r requirements/dev.txt -r requirements/references.txt)
	@$(call install,$(TORCH),-r requirements/torch.txt)
	@$(call install,$(TORCH),--no-deps --no-build-isolation -e .)
	@touch $@

$(TORCH)/.conformance: requirements/conformance.txt $(TORCH)/.ready
	@$(call install,$(TORCH),--require-hashes -r requirements/conformance.txt)
	@touch $@

$(RELEASE)/bin/python:
	@$(call make_venv,$(RELEASE))

$(RELEASE)/.ready: requirements/release.txt | $(RELEASE)/bin/python
	@$(call install,$(RELEASE),--require-hashes -r requirements/release.txt)
	@touch $@

$(SITE)/bin/python:
	@$(call make_venv,$(SITE))

$(SITE)/.ready: requirements/docs.txt | $(SITE)/bin/python
	@$(call install,$(SITE),--require-hashes -r requirements/docs.txt)
	@touch $@

frontend/node_modules/.package-lock.json: frontend/package-lock.json
	cd frontend && npm ci --silent --no-audit --no-fund --fetch-retries=1 --fetch-timeout=60000
	@touch $@

# $(call install,environment,arguments of pip install)
define install
echo "installing into $(1): $(2)" >&2; $(1)/bin/python -m pip install --quiet $(2)
endef

# $(call make_venv,environment): by the first Python that suits; without one, why each does not.
define make_venv
reasons=; for python in $(PYTHONS); do \
  command -v "$$python" >/dev/null || continue; \
  if reason=$$("$$python" tools/suitable_python.py 2>/dev/null); then \
    echo "creating $(1) with $$("$$python" --version)" >&2; \
    "$$python" -m venv $(1) || exit 1; \
    if [ "$$(uname -s)" = Darwin ]; then chflags -R nohidden $(1); fi; exit 0; \
  fi; \
  reasons="$$reasons$$python does not suit: $${reason:-it cannot be run}. "; \
done; \
echo "$${reasons}No Python 3.11, 3.12 or 3.13 suits among $(PYTHONS): install one, or name it: make PYTHON=/path/to/python." >&2; \
exit 1
endef
