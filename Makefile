# make            build the extension
# make install    put what was built into the PostgreSQL of PG_CONFIG
# make deb        build a Debian package for each PostgreSQL whose headers are installed, into target/deb
# make dist       pack the sources of the last commit for PGXN, into target
# make run        show the main job on throwaway servers
# make check      look over a change: format, style, the core, and the SQL surface
# make test       prove every promise on real servers, with PostgreSQL alone (TESTS="keeper:: idle" for those on
#                 servers whose names have all of these words)
# make test-all   the same with wider bounds, and beside other people's programs: clients, PgBouncer, pg_cron, pg_partman,
#                 Patroni, Prometheus and validators of manifests, which it installs
# make test-model   explore larger worlds of leases from a registry than make test does (about half an hour)
# make test-faults  let everything go wrong as often as its promise deserves (about 50 minutes), and show what was seen
# make test-citus   insert on Citus in every way, and show which node issued the IDs (three minutes; needs a PostgreSQL with Citus)
# make test-patroni  let every failover happen under Patroni and etcd, and show who issued what (about eight minutes)
# make test-upgrade  upgrade servers of another version: OLD_PG_CONFIG=/path/to/pg_config (a minute, and building)
# make test-packages  build the packages, and install and remove them on a copy of this machine (root; a minute, and
#                 building)
# make test-versions  build PostgreSQL 18, 17 and 16 from Debian's sources, and test on them (half an hour; VERSIONS=18 for one)
# make test-clients  insert objects with every client of docs/clients.md, and count the statements (two minutes)
# make test-page   compare the page that decodes IDs with the extension, in a browser (half a minute)
# make test-mutants  remove checks from the code, and show which test notices (about 50 minutes)
# make lint       check format and style
# make bench      measure beside PostgreSQL's own functions and other generators, and write tables and pictures to target/bench
#                 (twenty minutes; QUICK=1 for a minute, PARTS="cost insert" for some; docs/benchmarks.md)
# make bench-record    keep the results of the last make bench in docs/benchmarks
# make bench-core      measure the steps of an ID without PostgreSQL
# make profile    show in which functions a backend spends its time (installs perf)
# make compare-crash   count what comes again after a crash, from a sequence and from here (ROUNDS=8)
# make fleet      show five servers with one configuration, each of which finds or leases its worker ID, and take a million IDs from each
# make registry-load  show a registry with 1,024 servers: how long until each has a worker ID (a minute)
# make adopt      give Snowflake IDs to a table of a million rows, by the plan and in batches, and show how long a writer waits
#                 (a minute; ROWS=100000 for less)
# make fuzz       call every function with random arguments, in four encodings, and damage state files
#                 (a minute; SECONDS=600 for more; SEED=2 for others)
# make encrypt    encrypt and decrypt ten million IDs, and show that they are distinct, come back and are spread evenly, and the cost
#                 (five minutes; IDS=100000 for less)
# make poll       let readers follow a table by ID beside 64 writers and crashes, with the horizon and without, and show how
#                 many rows each has missed (two minutes; SECONDS=10 for less)
# make simulate   let 1,024 workers in 32 data centers issue IDs for a month in which all goes wrong, and show how many came
#                 twice (two minutes; DAYS=1 for less; SEED=2 for another month)
# make modulo     show how IDs that come one by one lie modulo n, for each sequence_start (5 minutes; IDS=10000 for less)
# make clock-picture   draw docs/clock.svg anew: what each policy does when the clock goes back
# make page-picture    make docs/page.png anew: what the page looks like
# make layout-picture  draw docs/layouts.svg anew: where the bits of each layout are
# make dashboard-picture   draw docs/dashboard.svg anew: the dashboard's queries, through a clock step and a full disk (five minutes)
# make clean      remove everything that was built
#
# PG_CONFIG=/path/to/pg_config chooses the PostgreSQL; without it, the one in the PATH.

ifdef PG_CONFIG
export PG_CONFIG
endif

# Asked when they are needed: `setup` may have to install PostgreSQL first.
pg_config = $(or $(PG_CONFIG),pg_config)
pg_major = $(shell $(pg_config) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
old_major = $(shell $(OLD_PG_CONFIG) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
version = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" snowflake_pg.control)
cargo_extension = PGRX_PG_CONFIG_PATH=$$(command -v $(pg_config)) PQ_LIB_DIR=$$($(pg_config) --libdir) cargo
features = --locked --release --features pg$(pg_major)
library = target/release/libsnowflake_pg.so
# What compiles without PostgreSQL's headers.
headerless = --workspace --exclude snowflake_pg --exclude naive_generator
# Which PostgreSQL the library says that it was built for: src/lib.rs has the text.
built_for = $(shell LC_ALL=C grep -aos 'snowflake_pg built for PostgreSQL [0-9][0-9]\.' $(library) | sed 's/.* //;s/\.//')
make_here = make$(if $(PG_CONFIG), PG_CONFIG=$(PG_CONFIG))
upgrades = $(wildcard sql/snowflake_pg--*--*.sql)

.PHONY: all setup build install deb dist run check test test-all layers test-core test-loom test-programs test-model test-servers test-faults test-citus test-patroni test-upgrade test-versions test-packages test-clients test-page test-mutants lint bench bench-record bench-core \
	profile compare-crash fleet registry-load adopt encrypt fuzz poll simulate modulo clock-picture layout-picture dashboard-picture page-picture clean

all: build

setup:
	@tools/setup

build: setup
	@echo "==> Building the extension for PostgreSQL $(pg_major) (about two minutes the first time)"
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
	install -m 644 sql/snowflake_registry.sql "$(DESTDIR)$$($(pg_config) --sharedir)/extension/"
	install -m 644 sql/snowflake_pg.sql "$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_pg--$(version).sql"

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

run: build
	@tools/setup servers
	@echo "==> Building the demonstration"
	cargo build --locked --package testbed --example demo
	@target/debug/examples/demo

space := $(subst ,, )
# The filter that chooses the tests of these files.
tests_of = $(subst $(space),|,$(1:%=%::))
# Functions, types and plans, most of them on shared servers.
checked = sql_surface text snowflake_type planner adopt extension tags

# The library of the development build: it is built in seconds after a change, and is only slower.
check: setup
	@tools/setup servers
	cargo fmt --all --check
	cargo clippy --locked $(headerless) --all-targets -- --deny warnings
	$(cargo_extension) clippy --locked --features pg$(pg_major) -- --deny warnings
	cargo test --locked --package snowflake_core --lib
	$(cargo_extension) build --locked --features pg$(pg_major)
	SNOWFLAKE_PG_LIBRARY=$(CURDIR)/target/debug/libsnowflake_pg.so \
		cargo test --locked --package testbed --test servers -- "$(call tests_of,$(checked))"

# Then a table of the times, also after a failure.
test: build
	@tools/setup servers tests
	@rm -f target/times
	@$(MAKE) --no-print-directory layers; status=$$?; tools/timed; exit $$status

test-all: export SNOWFLAKE_PG_TESTS = all
test-all: test
	@$(MAKE) --no-print-directory test-programs; status=$$?; tools/timed; exit $$status

layers:
	@echo "==> Testing without servers: the core, leases of workers, a simulated fleet, and interleavings (two minutes)"
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target test-core test-loom
	@$(MAKE) --no-print-directory test-servers

test-core: setup
	@echo "==> Testing the core: units and random schedules of crashes and clock steps"
	@tools/timed 'the core, and random schedules' cargo test --locked --package snowflake_core
	@echo "==> Exploring leases of workers: every order of crashes, lost answers, late requests, copies and restores"
	@tools/timed 'the model of leases' cargo test --locked --package lease_model
	@echo "==> Simulating a fleet: a day of crashes, failovers, wrong clocks and leases"
	@tools/timed 'the simulated fleet' cargo test --locked --package fleet_simulation

# One at a time: each has the kernel map and unmap stacks all the time, and threads of one process wait for each other
# there.
test-loom: setup
	@echo "==> Testing the core: interleavings of callers, an extension of the mark, transactions and readers"
	@RUSTFLAGS="--cfg loom" tools/timed 'interleavings, beside those above' cargo test --locked --release --package snowflake_core \
		--test loom --target-dir target/loom -- --test-threads 1

test-model: setup
	@echo "==> Exploring leases of workers: larger worlds"
	SNOWFLAKE_PG_TESTS=full cargo test --locked --package lease_model

test-servers: build
	@echo "==> Testing on real servers: crashes, clock steps, shards, every function and every refusal"
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	@tools/timed 'real servers' cargo test --locked --package testbed --test servers -- "$(TESTS)"

test-programs: build
	@tools/setup servers tests clients integrations patroni manifests monitoring
	@echo "==> Testing beside other people's programs"
	cargo build --locked --package disk_faults
	@tools/timed "other people's programs" cargo test --locked --package testbed --test programs

test-faults: build
	@tools/setup servers tests
	@echo "==> Testing on real servers: every fault, in full"
	cargo build --locked --package disk_faults
	SNOWFLAKE_PG_TESTS=full cargo test --locked --package testbed --test servers -- faults::

test-citus: build
	@tools/setup servers
	@echo "==> Testing on Citus: every way to insert, on every kind of table"
	cargo test --locked --package testbed --test programs -- citus::

test-patroni: build
	@tools/setup servers tests patroni
	@echo "==> Testing on Patroni: every failover, with each way to give nodes their workers"
	cargo build --locked --package disk_faults
	SNOWFLAKE_PG_TESTS=full cargo test --locked --package testbed --test programs -- patroni::

# PostgreSQL's own checks tell whether the catalogs can be upgraded.
test-upgrade: build
	@test -n "$(OLD_PG_CONFIG)" || { echo "==> Add OLD_PG_CONFIG=/path/to/pg_config of the version to upgrade from" >&2; exit 1; }
	@echo "==> Building the extension for the version to upgrade from"
	PGRX_PG_CONFIG_PATH=$(OLD_PG_CONFIG) PQ_LIB_DIR=$$($(OLD_PG_CONFIG) --libdir) \
		cargo build --locked --release --features pg$(old_major) --target-dir target/old
	@tools/setup servers tests
	@echo "==> Upgrading and restoring servers of PostgreSQL $(old_major) to $(pg_major)"
	cargo build --locked --package disk_faults
	export SNOWFLAKE_PG_OLD_CONFIG=$(OLD_PG_CONFIG) SNOWFLAKE_PG_OLD_LIBRARY=$(CURDIR)/target/old/release/libsnowflake_pg.so; \
		cargo test --locked --package testbed --test servers -- "faults:: row_24|snowflake_type:: pg_upgrade"

# What a new version of PostgreSQL can change, and the short form of the fault suite.
version_tests = sql_surface extension issuing health partitions adopt planner copy snowflake_type text reading outsiders tags faults

test-versions: setup
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	@set -e; for major in $(or $(VERSIONS),18 17 16); do \
		pg_config=$$(tools/postgresql $$major) || { echo "==> PostgreSQL $$major: left out"; continue; }; \
		echo "==> Testing on $$($$pg_config --version)"; \
		PGRX_PG_CONFIG_PATH=$$pg_config PQ_LIB_DIR=$$($$pg_config --libdir) \
			cargo build --locked --release --features pg$$major --target-dir target/versions/$$major; \
		PG_CONFIG=$$pg_config SNOWFLAKE_PG_LIBRARY=$(CURDIR)/target/versions/$$major/release/libsnowflake_pg.so \
			cargo test --locked --package testbed --test servers -- "$(call tests_of,$(version_tests))"; \
	done

test-packages: deb dist
	@tools/setup servers package-tests monitoring
	target/pgxn/bin/pgxn_meta META.json
	lintian --fail-on error,warning target/deb/*.deb
	@echo "==> Installing and removing the packages on a copy of this machine"
	SNOWFLAKE_PG_DEBS=$(CURDIR)/target/deb SNOWFLAKE_PG_DIST=$(CURDIR)/target/snowflake_pg-$(version).zip \
		cargo test --locked --package testbed --test programs -- packages:: --include-ignored

test-clients: build
	@tools/setup servers clients all-clients
	cargo test --locked --package testbed --test programs -- clients:: --include-ignored

test-page: build
	@tools/setup servers page
	cargo test --locked --package testbed --test programs -- page:: --include-ignored

page-picture: setup
	@tools/setup page
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=900,1090 --screenshot=docs/page.png \
		"file://$(CURDIR)/page/index.html"

test-mutants: setup
	@tools/setup servers tests
	@echo "==> Removing one check after the other, and looking which test notices"
	cargo run --locked --package testbed --example mutants -- $(MUTANTS)

lint: setup
	cargo fmt --all --check
	cargo clippy --locked $(headerless) --all-targets -- --deny warnings
	$(cargo_extension) clippy $(features) -- --deny warnings
	$(cargo_extension) clippy $(features) --package naive_generator -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --no-deps $(headerless)

bench: build
	@tools/setup servers
	@echo "==> Building what is measured beside it"
	$(cargo_extension) build $(features) --package naive_generator
	@cargo bench --locked --profile dev --package testbed --bench compare -- $(PARTS)

# Of a whole run, and of a commit that others can check out: docs/benchmarks always shows one such run.
bench-record:
	@test -f target/bench/results.json || { echo "==> Nothing was measured: type make bench first"; exit 1; }
	@grep -q '"command": "make bench",' target/bench/results.json || \
		{ echo "==> The last run was in short or in part: type make bench first"; exit 1; }
	@grep '"commit": "' target/bench/results.json | grep -qv -- '-dirty"' || \
		{ echo "==> The last run was not of a commit: commit, and type make bench first"; exit 1; }
	rm -rf docs/benchmarks
	mkdir docs/benchmarks
	cp target/bench/results.md target/bench/*.svg docs/benchmarks/
	@echo "==> Keep target/bench/results.json, too: the next release has it"

bench-core: setup
	@echo "==> Measuring the steps of an ID without PostgreSQL (two minutes)"
	cargo bench --locked --package snowflake_core --bench core

profile: build
	@tools/setup servers profile
	cargo build --locked --package testbed --example profile
	@target/debug/examples/profile

compare-crash: build
	@tools/setup servers
	cargo build --locked --package testbed --example compare_crash
	@target/debug/examples/compare_crash $(ROUNDS)

fleet: build
	@tools/setup servers
	@echo "==> Building the demonstration of a fleet"
	cargo build --locked --package testbed --example fleet
	@target/debug/examples/fleet

registry-load: build
	@tools/setup servers
	@echo "==> Building the simulation"
	cargo build --locked --package testbed --example registry_load
	@target/debug/examples/registry_load

adopt: build
	@tools/setup servers
	@echo "==> Building the comparison"
	cargo build --locked --package testbed --example adopt
	@target/debug/examples/adopt $(ROWS)

fuzz: build
	@tools/setup servers
	cargo build --locked --package testbed --example fuzz
	@target/debug/examples/fuzz "$(SECONDS)" "$(SEED)"

encrypt: build
	@tools/setup servers
	cargo build --locked --release --package testbed --example encrypt
	@target/release/examples/encrypt $(IDS)

poll: build
	@tools/setup servers
	@echo "==> Building the comparison"
	cargo build --locked --package testbed --example poll
	@target/debug/examples/poll $(SECONDS)

simulate: setup
	@echo "==> Simulating 1,024 workers in 32 data centers"
	cargo run --locked --release --package fleet_simulation -- "$(DAYS)" "$(SEED)"

modulo: build
	@tools/setup servers
	cargo build --locked --package testbed --example modulo
	@target/debug/examples/modulo $(IDS)

clock-picture: build
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	cargo build --locked --package testbed --example clock_picture
	@target/debug/examples/clock_picture

layout-picture: setup
	cargo run --locked --package testbed --example layout_picture

dashboard-picture: build
	@tools/setup servers tests monitoring
	cargo build --locked --package disk_faults
	cargo build --locked --package testbed --example dashboard_picture
	@target/debug/examples/dashboard_picture

clean:
	cargo clean
	rm -rf tests/clients/node_modules tests/clients/node/node_modules tests/clients/prisma/node_modules
