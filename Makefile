# The few commands of this project. `make help` lists them.

SHELL := /bin/bash
TARGET := $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
KNEE := $(or $(CARGO_TARGET_DIR),target)/$(TARGET)/release/knee

PREFIX ?= /usr/local

.PHONY: help setup build run test check bench fuzz examples install uninstall release site clean
.DEFAULT_GOAL := help

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 18

setup: ## install what is missing (Debian packages when root; else name them)
	@sh .ci/setup

build: ## build the binary
	@sh .ci/setup build
	@sh .ci/build
	@echo "built $(KNEE)"

run: build ## a first look at this host: under two minutes of measuring, then curves
	$(KNEE) run first-look

test: setup ## all that CI runs: format, lints, licences, every test
	@bash .ci/test

check: ## what of it is quick: nothing that boots, mounts, strikes, searches or needs probes
	@sh .ci/setup build
	@bash .ci/test quick

bench: setup ## benchmarks against limits and peers; prints ratios
	@sh .ci/build knee bench
	$(dir $(KNEE))bench $(BENCH)

fuzz: build ## hours at other seeds: millions of inputs, thousands of kills, all mutants
	@KNEE=$(KNEE) bash .ci/fuzz

examples: build ## write the example pages of docs/examples again
	@KNEE=$(KNEE) sh .ci/examples

install: $(KNEE) ## binary, completions, manual pages and docs below PREFIX (/usr/local)
	@stage=$$(mktemp -d) && trap 'rm -rf "$$stage"' EXIT && packaging/stage $(KNEE) "$$stage" && \
		"$$stage/install.sh" --prefix "$(DESTDIR)$(PREFIX)"

uninstall: ## what `make install` put there
	@packaging/install.sh --prefix "$(DESTDIR)$(PREFIX)" --uninstall

$(KNEE):
	$(MAKE) build

release: setup ## packages of knee in dist/: tar, Debian, RPM and image, with checksums
	@sh .ci/release

site: ## the documents as a site with search, in target/site; needs no network once mdBook is there
	@.ci/site

clean: ## remove what was built
	cargo clean
