# make                build the extension (two minutes the first time)
# make install        put what was built into the PostgreSQL of PG_CONFIG (root)
# make check          look over a change: format, style, the core, the SQL surface (two minutes)
# make test           prove every promise on servers, with PostgreSQL alone (eight minutes)
#                     TESTS="keeper:: idle": on servers, only tests whose names have these words
# make test-all       the same with wider bounds, and beside other people's programs (twenty minutes)
# make test-versions  the tests on servers, on each version of PostgreSQL (an hour; VERSIONS="18 19")
# make lint           check format, style and the documentation of the code (a minute)
# make bench          measure beside PostgreSQL's functions and other generators (twenty minutes)
#                     QUICK=1: in a minute; PARTS="cost insert": some; RECORD=1: for docs/benchmarks
# make fuzz           call functions at random, and damage state files (a minute; SECONDS=600 SEED=2)
# make run            show the main job on throwaway servers (a minute)
# make site           make a site of the documents, with search (seconds; first builds mdBook)
# make deb            build a Debian package for each PostgreSQL whose headers are installed
# make dist           pack the last commit for PGXN, and the functions in plain SQL for dbdev
# make clean          remove what was built
#
# make demo NAME=…     show one thing at work
# make suite NAME=…    run one of the suites of make test and make test-all, or one that takes longer
# make picture NAME=…  draw one of the pictures of the documents anew
# Without NAME, these list what there is, how long it takes and what it needs.
#
# On two idle cores; a fresh clone first compiles for three minutes. All but install and clean install
# what is missing, by apt-get. PG_CONFIG=/path/to/pg_config chooses a PostgreSQL not in the PATH.

ifdef PG_CONFIG
export PG_CONFIG
endif

# Asked when they are needed: `setup` may have to install PostgreSQL first.
pg_config = $(or $(PG_CONFIG),pg_config)
pg_major = $(shell $(pg_config) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
old_major = $(shell $(OLD_PG_CONFIG) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
# The major versions of PostgreSQL that the extension is for, from the newest on.
versions = $(shell sort --reverse debian/pgversions)
version = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" snowflake_pg.control)
cargo_extension = PGRX_PG_CONFIG_PATH=$$(command -v $(pg_config)) PQ_LIB_DIR=$$($(pg_config) --libdir) cargo
# pgrx declares a newer Rust than it needs.
rust = $(word 2,$(shell rustc --version))
ignoring = $(if $(filter 1.95.%,$(rust)),--ignore-rust-version)
features = --locked --release $(ignoring) --features pg$(pg_major)
library = target/release/libsnowflake_pg.so
# What compiles without PostgreSQL's headers.
headerless = --workspace --exclude snowflake_pg --exclude naive_generator
# The two programs of tests, and any example; arguments follow.
servers = cargo test --locked --package testbed --test servers --
programs = cargo test --locked --package testbed --test programs --
example = cargo run --locked --package testbed --example
# Which PostgreSQL the library says that it was built for: src/lib.rs has the text.
built_for = $(shell LC_ALL=C grep -aos 'snowflake_pg built for PostgreSQL [0-9][0-9]\.' $(library) | sed 's/.* //;s/\.//')
make_here = make$(if $(PG_CONFIG), PG_CONFIG=$(PG_CONFIG))
# Prints a script: the parts in these folders of sql, by their names.
joined = awk 'FNR == 1 && NR > 1 { print "" } { print }' $(foreach folder,$(1),$(sort $(wildcard sql/$(folder)/*.sql)))
upgrades = $(wildcard sql/snowflake_pg--*--*.sql)


.PHONY: all help setup build install check layers test test-all test-versions lint bench fuzz run site deb dist clean demo suite picture

all: build

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

setup:
	@tools/setup

build: setup
	@echo "==> Building the extension for PostgreSQL $(pg_major) (about two minutes the first time)"
	$(if $(ignoring),@echo "==> Ignoring that pgrx declares Rust 1.96: it builds with $(rust)")
	$(cargo_extension) build $(features)

# Builds nothing, so that root needs no Rust.
install:
	@refuse() { printf '==> %s\n' "$$@" >&2; exit 1; }; \
	test -f $(library) || refuse "There is no $(library)." "To build it, type $(make_here)"; \
	test -n "$(pg_major)" || refuse "$(pg_config) does not say which PostgreSQL it is of." "Add PG_CONFIG=/path/to/pg_config"; \
	test -n "$(built_for)" || refuse "$(library) does not say which PostgreSQL it was built for." "To build it, type $(make_here)"; \
	test "$(built_for)" = "$(pg_major)" || refuse "$(library) was built for PostgreSQL $(built_for), and $(pg_config) is of PostgreSQL $(pg_major)." \
		"To build for that one, type $(make_here)"
	install -d "$(DESTDIR)$$($(pg_config) --pkglibdir)" "$(DESTDIR)$$($(pg_config) --sharedir)/extension"
	install -m 755 $(library) "$(DESTDIR)$$($(pg_config) --pkglibdir)/snowflake_pg.so"
	install -m 644 snowflake_pg.control $(upgrades) "$(DESTDIR)$$($(pg_config) --sharedir)/extension/"
	install -m 644 sql/snowflake_hosted.sql "$(DESTDIR)$$($(pg_config) --sharedir)/extension/"
	umask 022; $(call joined,extension adopt) >"$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_pg--$(version).sql"
	umask 022; $(call joined,registry) >"$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_registry.sql"

# Of the working tree. The rules of debian/ work with dpkg-buildpackage, too.
deb: setup
	@tools/setup packages
	@echo "==> Building packages for PostgreSQL $$(PG_SUPPORTED_VERSIONS=installed pg_buildext supported-versions | xargs)"
	rm -f target/deb/*.deb
	mkdir -p target/deb
	PG_SUPPORTED_VERSIONS=installed pg_buildext updatecontrol
	DEB_RULES_REQUIRES_ROOT=no PG_SUPPORTED_VERSIONS=installed debian/rules clean binary DEB_DIR=target/deb
	@ls target/deb/*.deb

dist:
	@mkdir -p target
	git archive --format zip --prefix snowflake_pg-$(version)/ --output target/snowflake_pg-$(version).zip HEAD
	@echo "==> target/snowflake_pg-$(version).zip"
	@mkdir -p target/dbdev && rm -f target/dbdev/*
	git archive HEAD:sql/snowflake_hosted | tar --extract --directory target/dbdev
	git show HEAD:sql/snowflake_hosted.sql >target/dbdev/snowflake_hosted--$(version).sql
	@echo "==> target/dbdev"

run: build
	@tools/setup servers
	@$(example) demo

site:
	@tools/setup site
	@tools/site/build
	@echo "==> target/site/index.html"

# The tests of these folders, and whether hosted databases have the same functions.
checked = sql:: | adopt:: | repository:: | hosted::same every_function

# The library of the development build: it is built in seconds after a change, and is only slower.
check: setup
	@tools/setup servers
	cargo fmt --all --check
	cargo clippy --locked $(headerless) --all-targets -- --deny warnings
	$(cargo_extension) clippy --locked $(ignoring) --features pg$(pg_major) -- --deny warnings
	cargo test --locked --package snowflake_core --lib
	$(cargo_extension) build --locked $(ignoring) --features pg$(pg_major)
	SNOWFLAKE_PG_LIBRARY=$(CURDIR)/target/debug/libsnowflake_pg.so $(servers) "$(checked)"

# Then a table of the times, also after a failure.
test: build
	@tools/setup servers tests
	@rm -f target/times
	@$(MAKE) --no-print-directory layers; status=$$?; tools/timed; exit $$status

test-all: export SNOWFLAKE_PG_TESTS = all
test-all: test
	@$(MAKE) --no-print-directory suite/programs; status=$$?; tools/timed; exit $$status

layers:
	@echo "==> Testing without servers: the core, leases of workers, a simulated fleet, and interleavings (two minutes)"
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target suite/core suite/loom
	@$(MAKE) --no-print-directory suite/servers

test-versions: setup
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	@tools/test_versions "$(TESTS)" $(or $(VERSIONS),$(versions))

lint: setup
	@tools/setup lint
	cargo fmt --all --check
	cargo clippy --locked $(headerless) --all-targets -- --deny warnings
	$(cargo_extension) clippy $(features) -- --deny warnings
	$(cargo_extension) clippy $(features) --package naive_generator -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --no-deps $(headerless)
	target/lint/bin/cargo-deny --locked --features pg$(pg_major) check licenses

# What RECORD=1 keeps is a whole run, and of a commit that others can check out.
bench: build
	@test -z "$(RECORD)" || { test -z "$(QUICK)$(PARTS)" && git diff --quiet HEAD; } || \
		{ echo "==> RECORD=1 wants a whole run, without QUICK and PARTS, and all changes committed" >&2; exit 1; }
	@tools/setup servers
	@echo "==> Building what is measured beside it"
	$(cargo_extension) build $(features) --package naive_generator
	@cargo bench --locked --profile dev --package testbed --bench compare -- $(PARTS)
	$(if $(RECORD),rm -rf docs/benchmarks && mkdir docs/benchmarks && \
		cp target/bench/results.md target/bench/*.svg docs/benchmarks/)

fuzz: build
	@tools/setup servers
	@$(example) fuzz "$(SECONDS)" "$(SEED)"

clean:
	cargo clean
	find tests/programs/clients -name node_modules -prune -exec rm -rf {} +

# Each name is a rule below, and its text stands above the rule.
demo: $(or $(NAME:%=demo/%),demo/-)
suite: $(or $(NAME:%=suite/%),suite/-)
picture: $(or $(NAME:%=picture/%),picture/-)

# For all names that have no rule.
demo/% suite/% picture/%:
	@{ test "$(@F)" = - || echo "There is no $(@D) \"$(@F)\"."; echo "make $(@D) NAME=…, which is one of:"; \
	awk -F '[/:]' '/^## / { text = substr($$0, 4); next } $$1 == "$(@D)" && text { printf "  %-14s %s\n", $$2, text } { text = "" }' \
		Makefile; } >&2; exit 2

## Snowflake IDs for a table of a million rows, beside a writer (a minute; ROWS=10000)
demo/adopt: build
	@tools/setup servers
	@$(example) adopt $(ROWS)

## values that come twice after a crash, from a sequence and from here (a minute; ROUNDS=4)
demo/compare-crash: build
	@tools/setup servers
	@$(example) compare_crash $(ROUNDS)

## ten million IDs encrypted: distinct, spread evenly, at which cost (five minutes; IDS=100000)
demo/encrypt: build
	@tools/setup servers
	@$(example) encrypt --release $(IDS)

## five servers with one configuration, each with its own worker ID (two minutes; root for host names)
demo/fleet: build
	@tools/setup servers
	@$(example) fleet

## IDs that come one by one, modulo n, for each sequence_start (five minutes; IDS=10000)
demo/modulo: build
	@tools/setup servers
	@$(example) modulo $(IDS)

## readers by ID beside 64 writers and crashes, with and without horizon (two minutes; SECONDS=10)
demo/poll: build
	@tools/setup servers
	@$(example) poll $(SECONDS)

## the functions in which a backend spends its time (half a minute; installs perf)
demo/profile: build
	@tools/setup servers profile
	@$(example) profile

## 1,024 servers that ask one registry for their worker IDs at once (a minute)
demo/registry-load: build
	@tools/setup servers
	@$(example) registry_load

## the cost of each step of an ID, without PostgreSQL (two minutes)
demo/steps: setup
	cargo bench --locked --package snowflake_core --bench core

## docs/clock.svg: what each policy does when the clock goes back (two minutes)
picture/clock: build
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	@$(example) clock_picture

## docs/cost.svg: what an ID costs, by docs/benchmarks/results.md (seconds)
picture/cost: setup
	@$(example) cost_picture

## docs/dashboard.svg, through a clock step and a full disk (five minutes; installs Prometheus)
picture/dashboard: build
	@tools/setup servers tests monitoring
	cargo build --locked --package disk_faults
	@$(example) dashboard_picture

## docs/layouts.svg: where the bits of each layout are (seconds)
picture/layouts: setup
	@$(example) layout_picture

## docs/page.png: what the page looks like (seconds; installs Chromium)
picture/page: setup
	@tools/setup page
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=900,1110 --screenshot=docs/page.png \
		"file://$(CURDIR)/page/index.html"

## part of make test: random schedules, leases of workers, a day of a fleet (three minutes)
suite/core: setup
	@echo "==> Testing the core: units and random schedules of crashes and clock steps"
	@tools/timed 'the core, and random schedules' cargo test --locked --package snowflake_core
	@echo "==> Exploring leases of workers: every order of crashes, lost answers, late requests, copies and restores"
	@tools/timed 'the model of leases' cargo test --locked --package lease_model
	@echo "==> Simulating a fleet: a day of crashes, failovers, wrong clocks and leases"
	@tools/timed 'the simulated fleet' cargo test --locked --package fleet_simulation

# One at a time: each has the kernel map and unmap stacks all the time, and threads of one process wait for each other
# there.
## part of make test: interleavings of callers, transactions and readers (a minute)
suite/loom: setup
	@echo "==> Testing the core: interleavings of callers, an extension of the mark, transactions and readers"
	@RUSTFLAGS="--cfg loom" tools/timed 'interleavings, beside those above' cargo test --locked --release --package snowflake_core \
		--test loom --target-dir target/loom -- --test-threads 1

## part of make test: every promise on servers (five minutes; TESTS="keeper:: idle")
suite/servers: build
	@echo "==> Testing on real servers: crashes, clock steps, shards, every function and every refusal"
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	@tools/timed 'real servers' $(servers) "$(TESTS)"

## part of make test-all: beside Patroni, Prometheus and others (five minutes; installs them)
suite/programs: build
	@tools/setup servers tests clients integrations patroni manifests monitoring site
	@echo "==> Testing beside other people's programs"
	cargo build --locked --package disk_faults
	@tools/timed "other people's programs" $(programs) "$(TESTS)"

# What passes in some minutes under QEMU. Two tests of the SQL surface do not: one has millions of calls, and one wants the
# mark to be ahead of the clock.
arm64_tests = "sql_surface:: | faults::row_02_ids | clock::an_id_says_when | reference:: developer_options" \
	--skip a_time_range_uses_the_index --skip status_shows_the_configuration

# The development build: it is ready sooner.
## the core and a server on arm64, by QEMU (an hour; fetches Debian's newest Rust and PostgreSQL)
suite/arm64: setup
	@tools/setup servers arm64
	@tools/arm64 >/dev/null
	@echo "==> Testing the core on arm64: units, properties and random schedules"
	tools/arm64 cargo test --locked --package snowflake_core --lib --tests
	@echo "==> Testing the core on arm64: interleavings in which threads are preempted once"
	RUSTFLAGS="--cfg loom" SNOWFLAKE_PG_TESTS=least tools/arm64 cargo test --locked --release --package snowflake_core --test loom \
		--target-dir target/arm64/loom -- --test-threads 1
	@echo "==> Building the extension for arm64"
	tools/arm64 cargo build --locked --features pg18
	@echo "==> Testing on servers of arm64: the SQL surface, and a crash"
	PG_CONFIG=$$(tools/arm64) SNOWFLAKE_PG_LIBRARY=$(CURDIR)/target/arm64/build/aarch64-unknown-linux-gnu/debug/libsnowflake_pg.so \
		$(servers) $(if $(TESTS),"$(TESTS)",$(arm64_tests))

## every way to insert on Citus, and which node issues IDs (three minutes; PostgreSQL with Citus)
suite/citus: build
	@tools/setup servers
	@echo "==> Testing on Citus: every way to insert, on every kind of table"
	$(programs) citus::

## every client of docs/clients.md, and its statements (two minutes; installs them)
suite/clients: build
	@tools/setup servers clients all-clients
	$(programs) clients:: --include-ignored

## every fault as often as its promise deserves (50 minutes)
suite/faults: build
	@tools/setup servers tests
	@echo "==> Testing on real servers: every fault, in full"
	cargo build --locked --package disk_faults
	SNOWFLAKE_PG_TESTS=full $(servers) faults::

## larger worlds of leases from a registry (half an hour)
suite/model: setup
	@echo "==> Exploring leases of workers: larger worlds"
	SNOWFLAKE_PG_TESTS=full cargo test --locked --package lease_model

## checks are removed from the code, and a test notices (50 minutes; MUTANTS="parts of names")
suite/mutants: setup
	@tools/setup servers tests
	@echo "==> Removing one check after the other, and looking which test notices"
	@$(example) mutants $(MUTANTS)

## packages on a copy of this machine (a minute, and building; root)
suite/packages: deb dist
	@tools/setup servers package-tests monitoring
	target/pgxn/bin/pgxn_meta META.json
	lintian --fail-on error,warning target/deb/*.deb
	@echo "==> Installing and removing the packages on a copy of this machine"
	SNOWFLAKE_PG_DEBS=$(CURDIR)/target/deb SNOWFLAKE_PG_DIST=$(CURDIR)/target/snowflake_pg-$(version).zip \
		$(programs) packages:: --include-ignored

## the page that decodes IDs, in a browser (half a minute; installs Chromium)
suite/page: build
	@tools/setup servers page
	$(programs) page:: --include-ignored

## every failover under Patroni and etcd (eight minutes; installs them into target)
suite/patroni: build
	@tools/setup servers tests patroni
	@echo "==> Testing on Patroni: every failover, with each way to give nodes their workers"
	cargo build --locked --package disk_faults
	SNOWFLAKE_PG_TESTS=full $(programs) patroni::

## PostgreSQL's own regression and isolation tests (six minutes; unpacks its sources into target)
suite/postgresql: build
	@tools/setup servers postgresql-source
	@echo "==> Testing PostgreSQL itself: without the library, with it, and with serial_schemas"
	$(programs) postgresql:: --include-ignored

## a month of 1,024 workers in which all goes wrong (two minutes; DAYS=1 SEED=2)
suite/simulate: setup
	@echo "==> Simulating 1,024 workers in 32 data centers"
	cargo run --locked --release --package fleet_simulation -- "$(DAYS)" "$(SEED)"

# PostgreSQL's own checks tell whether the catalogs can be upgraded.
## upgrades from another PostgreSQL (a minute, and building; OLD_PG_CONFIG=/path/to/pg_config)
suite/upgrade: build
	@test -n "$(OLD_PG_CONFIG)" || { echo "==> Add OLD_PG_CONFIG=/path/to/pg_config of the version to upgrade from" >&2; exit 1; }
	@echo "==> Building the extension for the version to upgrade from"
	PGRX_PG_CONFIG_PATH=$(OLD_PG_CONFIG) PQ_LIB_DIR=$$($(OLD_PG_CONFIG) --libdir) \
		cargo build --locked --release $(ignoring) --features pg$(old_major) --target-dir target/old
	@tools/setup servers tests
	@echo "==> Upgrading and restoring servers of PostgreSQL $(old_major) to $(pg_major)"
	cargo build --locked --package disk_faults
	export SNOWFLAKE_PG_OLD_CONFIG=$(OLD_PG_CONFIG) SNOWFLAKE_PG_OLD_LIBRARY=$(CURDIR)/target/old/release/libsnowflake_pg.so; \
		$(servers) "faults:: row_24|snowflake_type:: pg_upgrade"
