# The names of make demo, make suite and make picture; those of make pack are in packages.mk and release.mk. The text above a
# name is what they list; what a name needs, and the arguments of its program, are variables of that name.

.PHONY: demo suite picture pack ready
names = tools/names.mk tools/packages.mk tools/release.mk

# Without a name, they list those that are there. A name that is not there is an error, and the others are left alone.
there = $(shell sed -n 's|^$1/\([a-z0-9-]*\):.*|\1|p' $(names))
unknown = $(filter-out $(call there,$1),$(NAME))
chosen = $(if $(NAME),$(if $(unknown),$1/-,$(addprefix $1/,$(NAME))),$1/-)
demo: $(call chosen,demo)
suite: $(call chosen,suite)
picture: $(call chosen,picture)
pack: $(call chosen,pack)

demo/- suite/- picture/- pack/-:
	@$(if $(NAME),exec >&2; echo "There is no $(@D) \"$(call unknown,$(@D))\".";) echo "make $(@D) NAME=…, which is one of:"; \
	awk -F '[/:]' '/^## / { text = substr($$0, 4); next } $$1 == "$(@D)" && text { printf "  %-14s %s\n", $$2, text } { text = "" }' \
		$(names)$(if $(NAME),; exit 2)

# The tests beside other people's programs, and what these are; arguments follow.
programs = cargo test --locked --package promises --test programs --
programs_need = clients integrations manifests monitoring
# The tests of interleavings; arguments follow.
loom = cargo test --locked --release --package snowflake_core --test loom --target-dir target/loom

# Servers whose clock and disk fail.
ready: build
	@tools/setup servers tests $(needs)
	cargo build --locked --package disk_faults

demo/%: build
	@tools/setup servers $(needs)
	@$(demo) $(subst -,_,$*) $(arguments)

## Snowflake IDs for four tables that 16 clients use (four minutes; ROWS=5000000 CLIENTS=4)
demo/adopt: arguments = "$(ROWS)" "$(CLIENTS)"

## one feed of four servers whose clocks differ, which are killed and promoted (half a minute)
demo/feed: ready

## the functions in which a backend spends its time (half a minute; installs perf)
demo/profile: needs = profile

## 1,024 servers that ask one registry for their worker IDs at once (a minute)
demo/registry-load: build

## the cost of each step of an ID, without PostgreSQL (two minutes)
demo/steps: setup
	cargo bench --locked --package snowflake_core --bench core

picture/%: setup
	@$(demo) $(subst -,_,$*)_picture

## docs/clock.svg: what each policy does when the clock goes back (two minutes)
picture/clock: ready

## docs/cost.svg: what an ID costs, by docs/benchmarks/results.md (seconds)
picture/cost: setup

## docs/dashboard.svg, through a clock step and a full disk (five minutes; installs Prometheus)
picture/dashboard: needs = monitoring
picture/dashboard: ready

## docs/first-minute.svg: README's SQL, typed into psql (half a minute; installs termtosvg-ng)
picture/first-minute: needs = recording
picture/first-minute: ready

## docs/layouts.svg: where the bits of each layout are (seconds)
picture/layouts: setup

## docs/page.png: what the page looks like (seconds; installs Chromium)
picture/page: setup
	@tools/setup page
	chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --window-size=900,1440 --screenshot=docs/page.png \
		"file://$(CURDIR)/contrib/page/index.html"

# Those of this name, also what make test-all leaves out.
suite/%: build
	@tools/setup servers $(needs)
	$(programs) $*:: --include-ignored

## part of make test: random schedules, leases of workers, a day of a fleet (two minutes)
suite/core: setup
	@echo "==> Testing the core: units and random schedules of crashes and clock steps"
	@tools/timed 'the core, and random schedules' cargo test --locked --package snowflake_core
	@echo "==> Exploring leases of workers: every order of crashes, lost answers, late requests, copies and restores"
	@tools/timed 'the model of leases' cargo test --locked --package lease_model
	@echo "==> Exploring the mark: every order of crashes, writes, lost WAL, promotions, rewinds and changes of the configuration"
	@tools/timed 'the model of the mark' cargo test --locked --package mark_model
	@echo "==> Simulating a fleet: a day of crashes, failovers, wrong clocks and leases"
	@tools/timed 'the simulated fleet' cargo test --locked --package fleet_simulation

# One at a time: each has the kernel map and unmap stacks all the time, and threads of one process wait for each other
# there.
## part of make test: interleavings of callers, transactions and readers (a minute)
suite/loom: setup
	@echo "==> Testing the core: interleavings of callers, an extension of the mark, transactions and readers"
	@RUSTFLAGS="--cfg loom" tools/timed 'interleavings, beside others' $(loom) -- --test-threads 1

## part of make test: every promise on servers (five minutes; TESTS="keeper:: idle")
suite/servers: ready
	@echo "==> Testing on real servers: crashes, clock steps, shards, every function and every refusal"
	@tools/timed 'real servers' $(servers) "$(TESTS)"

## part of make test-all: beside clients, Prometheus and others (five minutes; installs them)
suite/programs: needs = $(programs_need)
suite/programs: ready
	@echo "==> Testing beside other people's programs"
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

## tests/sql on builds of PostgreSQL that npm and PyPI carry (four minutes, and building thrice; BUILDS=npm-18)
suite/builds: setup
	@tools/setup servers builds
	tools/builds "$(or $(TESTS),sql::)" $(BUILDS)

## every way to insert on Citus, and which node issues IDs (three minutes; PostgreSQL with Citus)
suite/citus: build
	@tools/setup servers
	@echo "==> Testing on Citus: every way to insert, on every kind of table"
	$(programs) citus::

## a fleet that is killed, frozen, cloned and cut off, and a judge (four minutes; SEED=2)
suite/chaos: ready
	SNOWFLAKE_PG_TESTS=full SNOWFLAKE_PG_SEED="$(SEED)" $(programs) chaos:: --include-ignored

## every client of docs/clients.md, and its statements (two minutes; installs them)
suite/clients: needs = clients all-clients

# First against the units, which take seconds. What none of them notices is tried again with the random schedules.
mutate = target/cargo-mutants/bin/cargo-mutants mutants --package snowflake_core --output target/core-mutants --no-shuffle \
	--cargo-arg=--locked $(addprefix --file ,$(FILES))

## each operator of the core is changed, and a test notices (a night; FILES="policy.rs")
suite/core-mutants: setup
	@tools/setup core-mutants
	@echo "==> Changing each operator of the core, and looking whether a test notices"
	@mkdir -p target/core-mutants
	@export PROPTEST_MAX_SHRINK_ITERS=0; $(mutate) --cargo-arg=--lib || $(mutate) --iterate

## the tests on servers 20 times more, beside a load of 4 (hours; ROUNDS=1 LOAD=8 FRESH=1 TESTS="keeper:: idle")
suite/again: ready
	tools/again $(or $(ROUNDS),20) $(or $(LOAD),4) "$(TESTS)"

## every fault as often as its promise deserves (50 minutes)
suite/faults: ready
	@echo "==> Testing on real servers: every fault, in full"
	SNOWFLAKE_PG_TESTS=full $(servers) "faults:: | disturbed::"

## interleavings in which threads are preempted three times, and not twice (six minutes)
suite/interleavings: export SNOWFLAKE_PG_TESTS = full
suite/interleavings: suite/loom ;

## the image of the extensions, used by PostgreSQL 18 (a minute, and building; fetches it)
suite/image: setup
	@tools/setup servers tests image
	PG_CONFIG=$$(tools/postgresql 18) && export PG_CONFIG CARGO_TARGET_DIR=$(CURDIR)/target/versions/18 && \
		$(MAKE) --no-print-directory pack/image library=target/versions/18/release/libsnowflake_pg.so && unset CARGO_TARGET_DIR && \
		SNOWFLAKE_PG_LIBRARY=$(CURDIR)/target/versions/18/release/libsnowflake_pg.so \
		SNOWFLAKE_PG_IMAGE=$$(echo $(CURDIR)/target/image/*.tar) $(programs) image:: --include-ignored

# The root has what a developer's machine has: Python, Node.js and Ruby.
## the first hour of a stranger: README, Django, Drizzle and Rails in a root of Debian 12 (three minutes, and building; root)
suite/first-hour: setup
	@tools/setup packages first-hour
	@tools/debian_root bookworm-first-hour 15 sudo python3-venv npm rails ruby-pg
	@$(MAKE) --no-print-directory pack/deb PG_SUPPORTED_VERSIONS=15
	@echo "==> Typing what the documents say, in a root of its own"
	SNOWFLAKE_PG_DEBS=$(CURDIR)/target/deb $(programs) first_hour:: --include-ignored

## larger worlds of leases from a registry (half an hour)
suite/model: setup
	@echo "==> Exploring leases of workers: larger worlds"
	SNOWFLAKE_PG_TESTS=full cargo test --locked --package lease_model

## larger worlds of the durable mark (three minutes)
suite/mark: setup
	@echo "==> Exploring the mark: larger worlds"
	SNOWFLAKE_PG_TESTS=full cargo test --locked --package mark_model

## checks are removed from the code, and a test notices (90 minutes; MUTANTS="parts of names" or 3/10)
suite/mutants: setup
	@tools/setup servers tests
	@echo "==> Removing one check after the other, and looking which test notices"
	@cargo run --locked --package testbed --example mutants -- $(MUTANTS)

# Of what was compiled for this version, it takes all that it does not change; its own code is not optimized. So it is ready in
# seconds. A directory of its own: both libraries have one name, and servers may run with this one meanwhile.
## a next version, which is made of this tree, in every order of upgrades (a minute, and building)
suite/next: ready
	@echo "==> Building a next version, of a copy of this tree"
	@tools/next_version
	rm -rf target/next/build
	mkdir -p target/next/build/release
	cp --recursive --link target/release/build target/release/deps target/release/.fingerprint target/next/build/release
	rm target/next/build/release/deps/libsnowflake_pg.so
	cd target/next/tree && $(cargo_extension) build $(filter-out --locked,$(features)) --target-dir $(CURDIR)/target/next/build \
		--config profile.release.package.snowflake_pg.opt-level=0
	@echo "==> Upgrading a server with data"
	$(servers) extension::next --include-ignored

# PostgreSQL 16 is in no suite of Debian's: its package needs headers from elsewhere.
debian_majors = 15 17 18 19
## packages in roots of Debian 12, 13 and the next one (four minutes, and building; root)
suite/packages: build pack/dist pack/sbom pack/rpm
	@tools/setup servers packages package-tests monitoring
	@tools/debian_root bookworm 15
	@tools/debian_root trixie 17
	@tools/debian_root sid 18 19
	@tools/with_postgresql "$(debian_majors)" $(MAKE) --no-print-directory pack/deb PG_SUPPORTED_VERSIONS="$(debian_majors)"
	target/pgxn/bin/pgxn_meta META.json
	lintian --fail-on error,warning target/deb/*.deb target/deb/dbgsym/*.deb
	rpmlint --config contrib/packaging/rpm/rpmlint.toml $$(ls target/rpm/*.rpm | grep -v src.rpm)
	@echo "==> Installing, upgrading and removing the packages in roots of their own"
	SNOWFLAKE_PG_DEBS=$(CURDIR)/target/deb SNOWFLAKE_PG_DIST=$(CURDIR)/target/snowflake_pg-$(version).zip \
		SNOWFLAKE_PG_SBOM=$(CURDIR)/$(sbom) \
		SNOWFLAKE_PG_TARBALL=$(CURDIR)/$(tarball) \
		SNOWFLAKE_PG_RPM="$$(ls $(CURDIR)/target/rpm/snowflake_pg_$(pg_major)-[0-9]*.rpm | grep -v src.rpm)" \
		$(programs) packages:: --include-ignored

## the page that decodes IDs, in a browser (half a minute; installs Chromium)
suite/page: needs = page

## every failover under Patroni and etcd (eight minutes; installs them into target)
suite/patroni: needs = patroni
suite/patroni: ready
	@echo "==> Testing on Patroni: every failover, with each way to give nodes their workers"
	$(programs) patroni:: --include-ignored

## PostgreSQL's own regression and isolation tests (six minutes; unpacks its sources into target)
suite/postgresql: needs = postgresql-source

## two builds of the packages of the last commit, byte for byte (twenty minutes; PARTS="tarball rpm")
suite/reproducible: setup
	@tools/setup vendor packages rpm auditable
	@echo "==> Building the last commit twice, in different places"
	tools/reproducible $(or $(PARTS),rpm deb)

## a month of 1,024 workers in which all goes wrong (two minutes; DAYS=1 SEED=2)
suite/simulate: setup
	@echo "==> Simulating 1,024 workers in 32 data centers"
	cargo run --locked --release --package fleet_simulation -- "$(DAYS)" "$(SEED)"

## the site of the documents: its links, and that nothing comes from elsewhere (a minute; builds mdBook)
suite/site: needs = site

# A library of its own, so that no other test has the places.
## a server is held between two steps, and killed, copied or replaced (a minute, and building)
suite/stops: setup
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	@echo "==> Building the extension with places where a server can be held"
	$(cargo_extension) build --locked $(ignoring) --features pg$(pg_major),stops --target-dir target/stops
	@echo "==> Holding servers between two steps"
	SNOWFLAKE_PG_LIBRARY=$(CURDIR)/target/stops/debug/libsnowflake_pg.so $(servers) stops:: --include-ignored

# PostgreSQL's own checks tell whether the catalogs can be upgraded.
## upgrades from another PostgreSQL, with tables of every kind (a minute, and building; OLD_PG_CONFIG=/path/to/pg_config)
suite/upgrade: old_major = $(shell $(OLD_PG_CONFIG) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
suite/upgrade: build
	@test -n "$(OLD_PG_CONFIG)" || { echo "==> Add OLD_PG_CONFIG=/path/to/pg_config of the version to upgrade from" >&2; exit 1; }
	@echo "==> Building the extension for the version to upgrade from"
	PGRX_PG_CONFIG_PATH=$(OLD_PG_CONFIG) PQ_LIB_DIR=$$($(OLD_PG_CONFIG) --libdir) \
		cargo build --locked --release $(ignoring) --features pg$(old_major) --target-dir target/old
	@tools/setup servers tests
	@echo "==> Upgrading and restoring servers of PostgreSQL $(old_major) to $(pg_major)"
	cargo build --locked --package disk_faults
	export SNOWFLAKE_PG_OLD_CONFIG=$(OLD_PG_CONFIG) SNOWFLAKE_PG_OLD_LIBRARY=$(CURDIR)/target/old/release/libsnowflake_pg.so; \
		$(servers) "faults:: row_24 | pg_upgrade"
