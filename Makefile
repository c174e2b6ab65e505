# The short commands; CMake (CMakePresets.json) and tools/ do the work.

SUTURE := build/release/suture
DEFAULT_MODEL := qwen2.5-coder-1.5b-instruct
TEST_MODELS := smollm2-135m-instruct qwen2.5-coder-0.5b-instruct qwen2.5-coder-1.5b-instruct \
  gemma-3-270m

.PHONY: help install-deps build run test sanitize torture soak tidy format clean
.DEFAULT_GOAL := help

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install-deps: ## install missing Debian packages
	tools/install-deps

build: install-deps ## build/release/suture, optimised
	cmake --preset release
	cmake --build --preset release -j $$(nproc)

run: build ## three models read two documents at once; one answers questions about them
	$(SUTURE) models pull $(DEFAULT_MODEL)
	$(SUTURE) run examples/parallel-documents.toml \
	  --questions examples/parallel-documents.questions.jsonl --compare

test: build ## release build, models, all tests
	$(SUTURE) models pull $(TEST_MODELS)
	ctest --preset release

soak: build ## 30 minutes of 16 clients: every answer right, memory flat
	$(SUTURE) models pull smollm2-135m-instruct
	build/release/load_bench --clients 16 --seconds 1800

sanitize: install-deps ## unit tests under address, undefined-behaviour and thread sanitizers
	tools/sanitize asan
	tools/sanitize tsan

torture: build ## 10,000 rounds of processes killed and stopped on the K/V bus (some minutes)
	build/release/bus_torture --rounds 10000

tidy: install-deps ## formatting of all sources, clang-tidy on changed ones
	tools/tidy

format: install-deps ## format all sources in place
	git ls-files '*.h' '*.cc' | xargs clang-format-14 -i

clean: ## remove all build folders
	rm -rf build
