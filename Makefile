# SPDX-License-Identifier: GPL-2.0-or-later
# The front door of skblab. `make help` lists what there is.
SHELL := /bin/sh
.DEFAULT_GOAL := help

SKBLAB := ./skblab
PYTHON_FILES := runners analysis tests
VENV := $(or $(SKBLAB_VENV),.venv)
# KERNEL=7.3+skblab: that of Debian's backports, with our series. Only as said to make: builds of
# kernels for some boards ask their users to export a KERNEL of their own.
LINE := $(if $(findstring command,$(origin KERNEL)),--kernel $(KERNEL))
# The same with our series, for what is of the patched kernel.
PATCHED := $(if $(LINE),--kernel $(patsubst %+skblab,%,$(KERNEL))+skblab)

# As in ./skblab: what compiles all its modules at each start is slow.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help: ## this list
	@awk 'BEGIN { FS = ":.*## " } \
		/^[a-z][a-z-]*:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## install the few packages that the host itself needs (root)
	@sh runners/setup/host.sh

.PHONY: setup-tests
setup-tests: setup ## install what only tests need of the host: Slurm (root)
	@sh runners/setup/tests.sh

.PHONY: demo
demo: setup ## patch, build, boot, send, time, report: the main job
	@$(SKBLAB) demo $(DEMO_ARGS)

.PHONY: doctor
doctor: setup ## what this machine can do, and what that means
	@$(SKBLAB) doctor

.PHONY: shell
shell: setup ## a shell in a guest with the patched kernel
	@$(SKBLAB) boot

.PHONY: kernel
kernel: setup ## build the patched stock kernel (cached)
	@$(SKBLAB) kernel build $(PATCHED)

# No root rights, and nothing of the host but Python: it works with PREFIX=$HOME/.local.
.PHONY: install
install: ## the command, man pages and completion into PREFIX=/usr/local; it runs this clone (DESTDIR=)
	@$(SKBLAB) --version >/dev/null
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh runners/install.sh install $(VENV)

.PHONY: uninstall
uninstall: ## remove what make install put into PREFIX
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' sh runners/install.sh uninstall

.PHONY: package
package: setup ## Debian packages of the patched kernel: docs/howto/install-the-kernel.md
	@$(SKBLAB) kernel package $(PACKAGE_ARGS)

.PHONY: patches-check
patches-check: setup ## each patch: applies, builds, checkpatch, W=1, sparse, kernel-doc, three other architectures
	@$(SKBLAB) kernel patches-check $(CHECK_ARGS)

.PHONY: bench-patch
bench-patch: setup ## what the patches and other tools cost, instructions per packet
	@$(SKBLAB) bench patch $(BENCH_ARGS)

.PHONY: bench-analysis
bench-analysis: setup ## how fast skblab analyze is, beside a plain loop in C (BENCH_ARGS='--rounds 9')
	@$(SKBLAB) --version >/dev/null
	@PYTHONPATH=runners:analysis $(VENV)/bin/python -m skblab.bench.analysis $(BENCH_ARGS)

.PHONY: bench-report
bench-report: setup dev ## how long the report of a run of 1000 trials takes (BENCH_ARGS='--settings 40')
	@PYTHONPATH=runners:analysis:tests:tests/analysis \
		$(VENV)/bin/python tests/analysis/large_report.py $(BENCH_ARGS)

.PHONY: bench-store
bench-store: setup dev ## how large a store of a million rows is, and how quick to answer (BENCH_ARGS='--runs 50')
	@PYTHONPATH=runners:analysis:tests:tests/analysis \
		$(VENV)/bin/python tests/analysis/large_store.py $(BENCH_ARGS)

.PHONY: bench-scale
bench-scale: setup dev ## what 10 000 revisions take on up to 10 000 nodes, by a model (BENCH_ARGS='--revisions 1000')
	@PYTHONPATH=runners:analysis:tests $(VENV)/bin/python -m scale $(BENCH_ARGS)

.PHONY: scale-costs
scale-costs: setup-tests dev kernel ## measure what that model is fed with, on this machine
	@PYTHONPATH=runners:analysis:tests:tests/analysis $(VENV)/bin/python -m scale.measuring $(COSTS_ARGS)

.PHONY: bench-functions
bench-functions: setup ## where its instructions go (BENCH_ARGS='--row on --against off')
	@$(SKBLAB) bench functions $(BENCH_ARGS)

.PHONY: figures
figures: setup ## which figures of the documents are not so any more (FIGURES=all: also the long ones)
	@$(SKBLAB) --version >/dev/null
	@$(VENV)/bin/python -m skblab.figures $(FIGURES)

.PHONY: kselftest
kselftest: setup ## the series' kernel selftests in a guest (FLAVOUR=stock|rt|debug KERNEL=6.12|7.3)
	@$(SKBLAB) kselftest --flavour $(or $(FLAVOUR),stock) $(LINE)

.PHONY: kselftest-compare
kselftest-compare: setup ## the kernel's own network selftests, unpatched against patched
	@$(SKBLAB) kselftest --compare $(LINE)

.PHONY: kernel-soak
kernel-soak: setup ## mixed load while all is switched, on the debug kernel (FLAVOUR=, SOAK_ARGS=)
	@$(SKBLAB) soak --flavour $(or $(FLAVOUR),debug) $(PATCHED) $(SOAK_ARGS)

# Tests of guests wait for them most of the time, slow ones now and then: workers beyond the number of
# processors use these better.
more_workers = $(or $(WORKERS),$(shell echo $$(($$(nproc) + $(1)))))
PYTEST = $(VENV)/bin/python -m pytest -n $(call more_workers,1)
# What test-all has done is not done again while the tree is the same.
ALL = results/test-all/$(shell git rev-parse --short HEAD 2>/dev/null || echo tree)

# Only slow tests boot a kernel without our patches: with an empty cache it takes ten minutes more.
.PHONY: kernels
kernels: kernel ## build the kernels that slow tests boot: patched, and as Debian has it (cached)
	@$(SKBLAB) kernel build --kernel 6.12

# The kernel before the tests, not in one of them: with an empty cache a compile takes a quarter of an
# hour, the time of a test is limited, and workers that wait for a lock would take turns with the
# compiler. Linters beside them: guests leave a processor free now and then.
.PHONY: test
test: setup dev kernel ## before every commit: linters, unit and golden tests, main jobs on real guests
	@$(MAKE) --no-print-directory -j2 lint not-slow

.PHONY: not-slow
not-slow: dev
	@$(VENV)/bin/python -m pytest -n $(call more_workers,2) -m 'not slow' $(TEST_ARGS)

.PHONY: test-slice
test-slice: setup-tests dev kernels ## of the slow tests, this commit's part (BUDGET=34 minutes); five commits in a row have all
	@$(PYTEST) -m slow --slice-of "$$(git rev-list --count HEAD)" --budget $(or $(BUDGET),34) \
		$(TEST_ARGS)

# In tests they would be built beside others that take the processors, and the sweeps wait for them.
.PHONY: all-kernels
all-kernels: lint kernels
	@$(SKBLAB) kernel build --flavour rt
	@$(SKBLAB) kernel build --flavour debug

.PHONY: test-all
test-all: setup-tests dev all-kernels ## every test there is, at full scale; goes on where it was stopped (PASSED=FILE, SINCE=N)
	$(if $(PASSED),@mkdir -p $(ALL) && cp -n $(PASSED) $(ALL)/outcomes.jsonl)
	@SKBLAB_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) $(PYTEST) --full --outcomes=$(ALL)/outcomes.jsonl \
		--table=$(ALL)/table.md --junit-xml=$(ALL)/junit.xml $(if $(SINCE),--since=$(SINCE)) \
		$(TEST_ARGS)

# Unit tests make ten thousand files and have them flushed: in memory nobody waits for a disk. Where
# there is no room, or programs may not be run from there, they are where TMPDIR says.
IN_MEMORY = $(shell if [ -w /dev/shm ] && ! grep -q ' /dev/shm .*noexec' /proc/mounts && \
	[ "$$(df --output=avail -BM /dev/shm | tr -dc '0-9\n' | tail -n 1)" -ge 2000 ]; \
	then echo /dev/shm; else echo "$${TMPDIR:-/tmp}"; fi)

.PHONY: test-unit
test-unit: setup dev ## only tests without lab root, guest and programs of their own, on fewer examples
	@TMPDIR=$(IN_MEMORY) HYPOTHESIS_PROFILE=$${HYPOTHESIS_PROFILE:-brief} \
		$(PYTEST) -m 'not guest and not labroot and not slow and not process' $(or $(TEST_ARGS),tests/unit tests/analysis)

.PHONY: durations
durations: dev ## store what tests took, from outcomes (FROM=results/test-all/…/outcomes.jsonl COMMIT=N BUSY=yes)
	@PYTHONPATH=tests $(VENV)/bin/python -m tiers.store $(FROM) $(if $(COMMIT),--commit $(COMMIT)) $(if $(BUSY),--busy)

.PHONY: mutants
mutants: dev ## break lines of each module, count what no test notices (MUTANTS_ARGS='-n 10 sweep.running')
	@PYTHONPATH=tests nice -n 19 $(VENV)/bin/python -m mutation $(MUTANTS_ARGS)

.PHONY: lint
lint: setup dev ## every linter, formatter and type checker, no change made
	@sh runners/lint.sh $(VENV)

.PHONY: format
format: dev ## rewrite Python, Rust and C as the formatters want it
	@$(VENV)/bin/ruff check --fix $(PYTHON_FILES)
	@$(VENV)/bin/ruff format $(PYTHON_FILES)
	@$(SKBLAB) format

.PHONY: schemas
schemas: dev ## write results-schema/ and the pages of docs/reference/ anew
	@$(VENV)/bin/python -m skblab_analysis.schemas
	@$(VENV)/bin/python -m skblab.manual.schemas
	@$(VENV)/bin/python -m skblab_analysis.catalogue_page
	@$(VENV)/bin/python -m skblab_analysis.columns_page
	@$(VENV)/bin/python -m skblab.pages

.PHONY: versions-page
versions-page: setup ## what versions of Linux cost: the page of the runs in docs/versions/ (RUNS=packets=FILE stores one)
	@$(SKBLAB) --version >/dev/null
	@$(VENV)/bin/python -m skblab.pages.versions $(RUNS)

# Ten boots: nine sides, and A again.
.PHONY: workload-history
workload-history: setup dev ## how far apart boots of one kernel are, for skblab compare's threshold (WORKLOADS=; all: 1 h)
	@$(SKBLAB) compare 6.12 6.12 6.12 6.12 6.12 6.12 6.12 6.12 6.12 $(addprefix --workload ,$(WORKLOADS)) \
		--json >results/history.json || [ $$? -ne 2 ]
	@$(VENV)/bin/python -m skblab.compare.history results/history.json

.PHONY: golden
golden: dev ## write the golden files of the tests anew; look at what changed, then commit it
	@SKBLAB_GOLDEN=write $(VENV)/bin/python -m pytest tests/unit tests/analysis -k golden
	@git --no-pager diff --stat -- tests/analysis/golden

.PHONY: lock
lock: ## pin the Python packages anew (needs uv)
	uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command 'make lock' pyproject.toml -o requirements.lock
	uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command 'make lock' --extra dev -c requirements.lock \
		pyproject.toml -o requirements-dev.lock
	echo 'labgrid>=25' | uv pip compile -q --universal --python-version 3.11 --generate-hashes \
		--custom-compile-command 'make lock' -c requirements-dev.lock - -o requirements-labgrid.lock
	sed -i '1i # SPDX-License-Identifier: GPL-2.0-or-later' requirements.lock requirements-dev.lock \
		requirements-labgrid.lock

.PHONY: clean
clean: ## remove what was made in this tree (not the cache, not results/)
	rm -rf $(VENV) target .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The tools of development, added to the environment that the wrapper makes.
.PHONY: dev
dev:
	@$(SKBLAB) --version >/dev/null
	@cmp -s requirements-dev.lock $(VENV)/.dev-lock || { \
		echo 'skblab: adding the tools of development to the Python environment' >&2; \
		$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check \
			-r requirements-dev.lock && cp requirements-dev.lock $(VENV)/.dev-lock; }
