# The one door: everything a contributor or a newcomer types is a target here. `make` alone lists them.

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
STAMP := .venv/.made-by-make

# uv reads SSL_CERT_FILE; a machine set up for pip alone has only PIP_CERT.
export SSL_CERT_FILE ?= $(PIP_CERT)
ifeq ($(strip $(SSL_CERT_FILE)),)
unexport SSL_CERT_FILE
endif
# Several processes read the tests, and each would compile them for itself.
unexport PYTHONDONTWRITEBYTECODE
# The machine's Python 3.11 or newer, never a downloaded one.
export UV_PYTHON_DOWNLOADS := never

UV = $$($(PYTHON) -I -S tools/get_uv.py)
NATIVE := $(shell find native \( -name build -o -name __pycache__ \) -prune -o -type f -print)

.DEFAULT_GOAL := help
.PHONY: help setup demo demo-console demo-network demo-vm test test-adversary test-hosts test-nightly test-kubernetes test-operators cluster cluster-down check bench bench-torch gpu-test gpu-bench gpu-guard gpu-bundle docs site console console-check console-types console-wheel browser jupyterhub-wheel wheels image image-wheels bundle clean

help:  ## list the targets
	@awk -F ':.*  ## ' '/^[a-z-]+:.*  ## / { printf "make %-15s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP)  ## get what is needed (uv included) and leave .venv/bin/gpupool; instant when nothing changed
	@:

$(STAMP): pyproject.toml uv.lock src/gpupool/__init__.py $(NATIVE) tools/get_uv.py
	@echo "make setup: .venv from uv.lock" >&2
	@uv="$(UV)" && "$$uv" sync --frozen --quiet --compile-bytecode
	@$(BIN)/python -m compileall -q src/gpupool
	@touch $@

demo: setup  ## a pool in under a minute: shares, a refusal, a wait, a crash, a report that closes; then its web console
	@sh tools/demo.sh

demo-console: setup  ## a pool and a link to its web console, until Enter is pressed; after `make console`
	@sh tools/demo.sh console

demo-network: setup  ## two tenants with the same addresses, a load balancer, a gateway that fails over; as root, needs OVN
	@sh tools/demo_network.sh

demo-vm: setup  ## a virtual machine as a job: an image, a card, a crash, a report; needs QEMU
	@sh tools/demo_vm.sh

test: setup  ## every test of the ordinary kind; ARGS='-k name' narrows
	@$(BIN)/python -m pytest -n auto --dist worksteal --durations=40 --durations-min=5 --ignore=tests/adversary --ignore=tests/hosts --ignore=tests/kubernetes -m 'not slow and not nightly and not kubernetes and not adversary and not hosts' $(ARGS)

test-adversary: setup  ## attacks and failures on real pools, with the outcome that the documents promise
	@$(BIN)/python -m pytest -n 2 --dist loadfile -rs -p tests.support.cpu_times -m 'adversary and not slow and not nightly' tests/adversary tests/faults tests/api $(ARGS)

test-hosts: setup  ## containers, virtual machines and MPS with the real programs; as root; each skips where its program lacks
	@$(BIN)/python -m pytest -n 2 --dist loadfile -rs -p tests.support.cpu_times --durations=10 --durations-min=5 -m 'hosts and not slow and not nightly' tests/hosts $(ARGS)

test-nightly: setup  ## more rounds of attacks, failures and kills, also on a real Kubernetes; a built image of Debian boots: an hour, as root
	@$(BIN)/python -m tests.support.cluster build
	@failed=0; \
	$(BIN)/python -m pytest -n 2 --dist loadfile -o faulthandler_timeout=0 -rs -m nightly --ignore=tests/kubernetes tests $(ARGS) || failed=1; \
	$(BIN)/python -m pytest -n 2 --dist loadscope -o faulthandler_timeout=0 -rs -m nightly tests/kubernetes $(ARGS) || failed=1; \
	$(BIN)/python -m pytest -n 0 -o faulthandler_timeout=0 -rs -m 'hosts and slow' tests/hosts $(ARGS) || failed=1; \
	exit $$failed

test-kubernetes: setup  ## the tests on a real Kubernetes, built from source the first time (15 min, Go); as root with a real node
	@$(BIN)/python -m tests.support.cluster build
	@$(BIN)/python -m pytest -n 2 --dist loadscope -rs -p tests.support.cpu_times -m 'kubernetes and not operators and not nightly' tests/kubernetes $(ARGS)

test-operators: setup  ## gangs as LeaderWorkerSet's, MPI's and Ray's own controllers make them; builds these the first time
	@$(BIN)/python -m tests.support.cluster build
	@$(BIN)/python -m tests.support.operators
	@$(BIN)/python -m pytest -n 0 -o faulthandler_timeout=0 -rs -m operators tests/kubernetes/operators $(ARGS)

cluster: setup  ## the same Kubernetes to try things on; ARGS='--nodes 100 --real-node', `--help` says more
	@$(BIN)/python -m tests.support.cluster up $(ARGS)

cluster-down: setup  ## end it; nothing stays behind, whatever happened before
	@$(BIN)/python -m tests.support.cluster down $(ARGS)

check: setup  ## ruff, strict types, import contracts, style: all of them, then the verdict
	@failed=0; \
	for step in 'ruff check .' 'ruff format --check .' 'mypy' 'mypy -p bench -p tests.support' \
	  'mypy tools/get_uv.py' 'mypy tools/make_image.py' 'mypy tools/make_bundle.py' 'mypy tools/check_style.py' 'lint-imports' \
	  'python tools/check_style.py' 'python tools/make_console.py quick'; do \
	  $(BIN)/$$step || { failed=1; echo "make check: '$$step' failed" >&2; }; \
	done; exit $$failed

bench: setup  ## the figures the docs quote, beside Slurm's; ARGS='array faults' picks
	@$(BIN)/python -m bench $(ARGS)

bench-torch: setup  ## unmodified PyTorch on simulated cards under shares; fetches 5 GB the first time
	@$(BIN)/python -m bench.torch_on_simulated $(ARGS)

gpu-test: setup  ## the tests that need a real NVIDIA card; elsewhere they skip and say why
	@$(BIN)/python -m pytest -n 0 -o faulthandler_timeout=0 -rs tests/gpu $(ARGS)

gpu-bench: setup  ## figures of a real card: calibration, launches, shares, verify; ARGS='--out DIR'
	@$(BIN)/python -m bench.gpu $(ARGS)

gpu-guard: bench/gpu/guard/guard  ## five questions to a real card and its stock driver, as root (bench/gpu/guard/README.md)
	@bench/gpu/guard/guard $(ARGS)

gpu-bundle: setup  ## all of these three for a machine without a network (Python 3.12, x86-64), into dist/gpu-bundle.tar.gz
	@$(BIN)/python tools/make_gpu_bundle.py dist/gpu-bundle.tar.gz

GUARD := $(wildcard bench/gpu/guard/*.c bench/gpu/guard/*.h)
bench/gpu/guard/guard: $(GUARD)
	@$(CC) -std=gnu11 -O2 -Wall -Wextra -o $@ $(filter %.c,$^) -ldl -lpthread

docs: setup  ## the generated reference, into docs/reference
	@for page in tools/gen_*.py; do $(BIN)/python $$page || exit 1; done

site:  ## the documentation as a site, into site/: search offline, en and zh; every link is checked
	@uv="$(UV)" && UV_PROJECT_ENVIRONMENT=.tools/site "$$uv" sync --frozen --quiet --only-group docs
	@NO_MKDOCS_2_WARNING=1 .tools/site/bin/python tools/make_site.py $(ARGS)

console:  ## the web console's files, into console/gpupool_console/static; Node.js comes from PyPI, 200 MB the first time
	@$(PYTHON) tools/make_console.py build

console-check: setup  ## types = our OpenAPI document, tsc, style, unit tests, two builds alike, bytes of the first page
	@$(BIN)/python tools/make_console.py check

console-types:  ## the console's types of the REST API, after `make docs`
	@$(PYTHON) tools/make_console.py types

browser: setup  ## what drives a browser in the tests of the console (Playwright), beside the Debian package chromium
	@uv="$(UV)" && "$$uv" sync --frozen --inexact --quiet --group browser

console-wheel: console  ## dist/gpupool_console-*.whl
	@uv="$(UV)" && "$$uv" build --quiet --wheel --out-dir dist console
	@ls dist/gpupool_console-*.whl

jupyterhub-wheel: setup  ## dist/gpupool_jupyterhub-*.whl
	@uv="$(UV)" && "$$uv" build --quiet --wheel --out-dir dist packages/gpupool-jupyterhub
	@ls dist/gpupool_jupyterhub-*.whl

wheels: setup  ## both distributions as wheels, into dist/
	@uv="$(UV)" && "$$uv" build --quiet --wheel --all-packages --out-dir dist
	@ls dist/*.whl

IMAGE ?= gpupool/gpupool:$(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' src/gpupool/__init__.py)

image-wheels: setup  ## what an image is made of, into dist/image-wheels; over the network
	@$(BIN)/python tools/make_image.py gather dist/image-wheels $(ARGS)

image: setup  ## dist/image.tar without a network or a daemon; ROOTFS=base.tar IMAGE=name:tag
	@test -n "$(ROOTFS)" || { echo "make image: a base's files are needed: ROOTFS=base.tar" >&2; exit 2; }
	@$(BIN)/python tools/make_image.py make --rootfs "$(ROOTFS)" --wheels dist/image-wheels --name "$(IMAGE)" --out dist/image.tar

bundle: setup console  ## one archive for machines without a network, into dist/; SIGNING_KEY=key.pem, EXTRAS=, PYTHONS=
	@$(BIN)/python tools/make_bundle.py $(if $(SIGNING_KEY),--signing-key "$(SIGNING_KEY)") $(if $(EXTRAS),--extras "$(EXTRAS)") \
	  $(if $(PYTHONS),--pythons "$(PYTHONS)") $(if $(COMPRESSION),--compression "$(COMPRESSION)") $(ARGS)

clean:  ## remove everything the other targets made
	rm -rf .venv .tools dist build site console/node_modules console/gpupool_console/static bench/gpu/guard/guard native/build htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis \
	  .import_linter_cache .style_cache.json
	find src tests bench tools native -name __pycache__ -prune -exec rm -rf {} +
