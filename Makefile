# Makefile - short names for what CMake and the scripts of tools/ do.
JOBS ?= $(shell nproc)
SETTINGS ?=

BUILD = cmake --build --preset release -j $(JOBS)

.PHONY: all configure everything benchmarks cli-programs help demo test test-all quick soak asan bench bench-peers format format-check tidy style docs sizes golden coverage wheel install image clean

all: configure ## build build/levin and the library
	@$(BUILD)

everything: configure ## build the tests, benchmarks and examples too
	@$(BUILD) --target everything

cli-programs: configure
	@$(BUILD) --target all cli_programs

configure:
	@command -v cmake >/dev/null && command -v ninja >/dev/null || { echo "cmake or ninja is missing: run tools/setup.sh (without root: tools/setup.sh --prefix DIR)"; exit 1; }
	@cmake --preset release $(SETTINGS) >build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1#/p' $(MAKEFILE_LIST) | while IFS='#' read -r name what; do printf '%-12s %s\n' "$$name" "$$what"; done

demo: ## install missing packages, build, train a small GPT for 45 seconds, sample from it
	@bash tools/demo

test: everything ## run the main tests: less than ten minutes on two cores, with the build
	@bash tools/run_tests -L '^core$$' -j $(JOBS)

test-all: everything ## run all tests except the soak (without those that have the label DONE); ends with the ten slowest
	@bash tools/run_tests -LE '^soak$$$(if $(DONE),|^$(DONE)$$)' -j $(JOBS)

soak: everything ## faults at random moments, on hosts with real MPIs and Slurm, and on one machine: an hour (SOAK_ROUNDS=2000: two more)
	@ctest --test-dir build -L soak --no-tests=error --verbose

quick: everything ## run the tests that take seconds
	@bash tools/run_tests -L quick -j $(JOBS)

asan: ## run the quick tests under the address and undefined-behavior sanitizers
	@bash tools/check_build asan

bench: benchmarks ## measure speed and memory, as ratios within one run
	@bench/run
	@python3 tools/bench_packing.py
	@bench/ranks
	@bench/stores

bench-peers: benchmarks ## the same compared with PyTorch, which is installed into a separate folder
	@bench/peers

benchmarks: configure
	@$(BUILD) --target benchmarks

format: ## lay out every C file
	@bash tools/format

format-check: ## check the layout of every C file
	@bash tools/format --check

tidy: all ## run clang-tidy over all sources
	@bash tools/tidy

style: ## check the conventions that a script can check
	@tools/check_style

docs: all ## write the pages that are generated from tables
	@bash tools/make_docs

sizes: ## print lines by folder, the longest files and functions
	@tools/check_style --sizes

golden: ## write the reference files again, with PyTorch
	@bash tools/golden

coverage: ## print which lines the quick tests run
	@tools/coverage

wheel: ## make wheels for any Linux of 2014 or later in dist/ (WHEELS="x86_64 aarch64")
	@bash tools/make_wheel $(WHEELS)

install: all ## install into PREFIX (default: /usr/local)
	@cmake --install build --prefix $(or $(PREFIX),/usr/local)

image: ## build a container image with buildah, podman or docker (CUDA=1, IMAGE=NAME, BASE=IMAGE)
	@tools/make_image

clean: ## remove what was built
	rm -rf build build-* dist
