# What a person would type. ENVOY_VERSION is the Envoy that everything here is tested with.
ENVOY_VERSION := 1.40.0
# What Envoy's rate limit service of the tests counts in.
REDIS_VERSION := 6.2.5.1
export PORTCULLIS_ENVOY ?= $(CURDIR)/.tools/envoy/bin/envoy
FILES ?= examples/quickstart
TARGET := $(abspath $(or $(CARGO_TARGET_DIR),target))
# Tests wait for Envoys and API servers, so that a core has work for more than one of them.
TEST_THREADS := $(or $(TEST_THREADS),$(shell expr 2 \* $$(nproc)))
# Of what tests generate, the part that is new in this run; `make test PROPTEST_RNG_SEED=NUMBER` repeats it.
export PROPTEST_RNG_SEED := $(or $(PROPTEST_RNG_SEED),$(strip $(shell od -An -N4 -tu4 /dev/urandom)))
BACKENDS := --name a --listen 127.0.0.1:9001 --name b --listen 127.0.0.1:9002

run: envoy ## Serve FILES (examples/quickstart) on port 8080, Envoy and two backends included.
	cargo build --quiet --bin portcullis --bin echo
	@$(TARGET)/debug/echo $(BACKENDS) & trap "kill $$! 2>/dev/null || true" EXIT INT TERM; $(TARGET)/debug/portcullis run --files $(FILES) --envoy $(PORTCULLIS_ENVOY) $(ARGUMENTS)

test: envoy kubernetes ratelimit oidc ## Format, clippy, docs, all tests.
	cargo fmt --all --check
	@echo "PROPTEST_RNG_SEED=$(PROPTEST_RNG_SEED)"
	PORTCULLIS_BIN=$(TARGET)/debug/portcullis .ci/test $(TEST_THREADS)

fuzz: envoy ## Test generated input with new seeds and ever more of it, for FUZZ_MINUTES (60).
	PORTCULLIS_BIN=$(TARGET)/debug/portcullis .ci/fuzz

chaos: ## Kill processes at random steps of what they store and read, for CHAOS_MINUTES (60).
	cargo build --quiet --bin portcullis
	CHAOS_MINUTES=$(or $(CHAOS_MINUTES),60) PORTCULLIS_BIN=$(TARGET)/debug/portcullis cargo test --quiet --workspace --test freeze -- --nocapture chaos

e2e: ## Install into a Kubernetes on this machine, as root, and replace what serves under load.
	@e2e/e2e.sh

upgrade: ## Upgrade under load, as root, from PREVIOUS: the checkout of an earlier commit, built there.
	@e2e/upgrade.sh

conformance: ## Run Gateway API's conformance suite in a Kubernetes on this machine, as root; the first time it is built.
	@e2e/conformance.sh

bench: kubernetes envoy ## Print the figures of benches/: times, memory, and instructions (which takes valgrind and some minutes).
	cargo bench -p engine --bench engine
	cargo bench -p translate --bench translate
	cargo bench -p translate --bench translate -- instructions
	cargo bench -p xds --bench xds --bench connect
	cargo build --release --bin portcullis
	PORTCULLIS_BIN=$(TARGET)/release/portcullis cargo bench --profile release -p portcullis-tests --bench cluster --bench placement --bench regexes --bench filter_chain --bench units --bench rows --bench judge --bench freeze

envoy: ## Install Envoy, and link it into .tools/.
	@.ci/install-envoy $(ENVOY_VERSION) .tools/envoy

kubernetes: ## Build the API server of the tests, and helm, and link them into .tools/, which takes some minutes once.
	@.ci/install-kubernetes .tools/kubernetes etcd kube-apiserver helm

ratelimit: ## Build Envoy's rate limit service, install its Redis, and link them into .tools/.
	@.ci/install-ratelimit $(REDIS_VERSION) .tools/ratelimit

oidc: ## Build the OpenID provider of the tests, and link it into .tools/.
	@.ci/go-program .tools/oidc oidc op go build github.com/zitadel/oidc/v3/example/server

fmt: ## Format the code.
	cargo fmt --all

lint: ## Check format and clippy.
	cargo fmt --all --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings

# There are no examples: with them the features of dependencies are those of clippy and tests, and nothing is checked twice.
docs: ## Build the API documentation.
	RUSTDOCFLAGS="-D warnings" cargo doc --quiet --workspace --no-deps --document-private-items --lib --bins --examples

doctest: ## Run the examples of the API documentation.
	cargo test --quiet --workspace --doc

.PHONY: run test fuzz chaos e2e upgrade conformance bench envoy kubernetes ratelimit oidc fmt lint docs doctest
