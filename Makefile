# Makefile - short names for what CMake and the scripts of tools/ do.
JOBS ?= $(shell nproc)
SETTINGS ?=

BUILD = cmake --build --preset release -j $(JOBS)

.PHONY: all configure everything benchmarks cli-programs help demo test quick soak asan bench bench-peers format format-check tidy style docs sizes golden coverage install clean

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

demo: ## install what is missing, build, train a small GPT for 45 seconds, sample from it
	@bash tools/demo

test: everything ## everything that is tested, but the soak; ends with the ten slowest
	@bash tools/run_tests -LE soak -j $(JOBS)

soak: everything ## faults at moments that chance picks, on hosts with real MPIs and Slurm, and on one machine: an hour (SOAK_ROUNDS=2000: two more)
	@ctest --test-dir build -L soak --verbose

quick: everything ## the tests that take seconds
	@bash tools/run_tests -L quick -j $(JOBS)

asan: ## the quick tests under the address and undefined-behaviour sanitizers
	@bash tools/check_build asan

bench: benchmarks ## speed and memory, as ratios within one run
	@bench/run
	@bench/ranks
	@bench/stores

bench-peers: benchmarks ## the same beside PyTorch, which is installed into a folder of its own
	@bench/peers

benchmarks: configure
	@$(BUILD) --target benchmarks

format: ## lay out every C file
	@bash tools/format

format-check: ## is every C file laid out?
	@bash tools/format --check

tidy: all ## clang-tidy over all sources
	@bash tools/tidy

style: ## the habits that a script can check
	@tools/check_style

docs: all ## write the pages that come from tables
	@bash tools/make_docs

sizes: ## lines by room, the longest files and functions
	@tools/check_style --sizes

golden: ## make the reference files again, with PyTorch
	@bash tools/golden

coverage: ## which lines the quick tests run
	@tools/coverage

install: all ## into PREFIX, /usr/local unless said otherwise
	@cmake --install build --prefix $(or $(PREFIX),/usr/local)

clean: ## remove what was built
	rm -rf build build-*
