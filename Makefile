# make                build the extension (three to four minutes the first time)
# make install        put what was built into the PostgreSQL of PG_CONFIG (root)
# make check          look over a change: format, style, the core, the SQL surface (two minutes)
# make test           prove every promise on servers (eight minutes; TESTS="words of their names")
# make test-all       the same with wider bounds, and beside other people's programs (twenty minutes)
# make test-versions  the tests on servers, on each version of PostgreSQL (an hour; VERSIONS="18 19")
# make lint           check style, the documentation of the code, and what is linked in (a minute)
# make bench          measure beside others (half an hour; QUICK=1 PARTS="cost insert" RECORD=1)
# make fuzz           call functions at random, and damage state files (a minute; SECONDS=600 SEED=2)
# make run            show the main job on throwaway servers (a minute)
# make site           make a site of the documents, with search (seconds; first builds mdBook)
# make release-check  do and check each step up to a tag (a night)
# make publish-as     fill in where the project is, and date its first release (URL=… MAINTAINER="Name <address>")
# make freeze         keep the scripts, names and formats that no later version may change
# make dated          give the version the date of today, and freeze all of it
# make clean          remove what was built
# make pack NAME=…     make a package, an image, an archive, or what goes with them
# make demo NAME=…     show one thing at work
# make suite NAME=…    run one of the suites of make test and make test-all, or one that takes longer
# make picture NAME=…  draw one of the pictures of the documents anew
# Without NAME, these list what there is, how long it takes and what it needs.
#
# On two idle cores, without what a fresh clone compiles first. All but install and clean install
# what is missing, by apt-get. PG_CONFIG=/path/to/pg_config chooses a PostgreSQL not in the PATH.

# Asked when they are needed: `setup` may have to install PostgreSQL first.
pg_config = $(or $(PG_CONFIG),pg_config)
pg_major = $(shell $(pg_config) --version | sed 's/^PostgreSQL \([0-9]*\).*/\1/')
cargo_extension = PGRX_PG_CONFIG_PATH=$$(command -v $(pg_config)) PQ_LIB_DIR=$$($(pg_config) --libdir) cargo
# AUDITABLE=1 has the names of the crates written into the library, where cargo audit reads them. This is what `cargo auditable
# build --locked` sets, but without a path: the wrapper's name goes into symbols, so each directory would get another library.
auditable = $(if $(AUDITABLE),PATH="$(CURDIR)/target/auditable/bin:$$PATH" RUSTC_WORKSPACE_WRAPPER=cargo-auditable \
	CARGO_AUDITABLE_ORIG_ARGS='{"offline":false$(comma)"locked":true$(comma)"frozen":false$(comma)"config":[]}' )
comma = ,
# pgrx declares a newer Rust than it needs.
rust = $(word 2,$(shell rustc --version))
ignoring = $(if $(filter 1.95.%,$(rust)),--ignore-rust-version)
features = --locked --release $(ignoring) --features pg$(pg_major)
# What compiles without PostgreSQL's headers.
headerless = --workspace --exclude snowflake_pg --exclude naive_generator
# The tests on servers; arguments follow.
servers = cargo test --locked --package promises --test servers --
# The program of this name; arguments follow.
demo = cargo run --locked --package demos --bin

.PHONY: all help setup build check layers test test-all test-versions lint bench fuzz run site clean
.PHONY: by-date compiled tests-compiled loom-compiled programs-fetched
all: build

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

setup:
	@tools/setup

build: setup
	@echo "==> Building the extension for PostgreSQL $(pg_major) (three to four minutes the first time)"
	$(if $(ignoring),@echo "==> Ignoring that pgrx declares Rust 1.96: it builds with $(rust)")
	$(if $(AUDITABLE),@tools/setup auditable)
	$(auditable)$(cargo_extension) build $(features)

run: build
	@tools/setup servers
	@$(demo) run

site:
	@tools/setup site
	@tools/site/build
	@echo "==> target/site/index.html"

# The library of the development build: it is built in seconds after a change, and is only slower. Of hosted databases, only
# whether they have the same functions.
check: setup
	@tools/setup servers
	cargo fmt --all --check
	cargo clippy --locked $(headerless) --all-targets -- --deny warnings
	$(cargo_extension) clippy --locked $(ignoring) --features pg$(pg_major) -- --deny warnings
	cargo test --locked --package snowflake_core --lib
	$(cargo_extension) build --locked $(ignoring) --features pg$(pg_major)
	SNOWFLAKE_PG_LIBRARY=$(CURDIR)/target/debug/libsnowflake_pg.so $(servers) \
		"sql:: | adopt:: | repository:: | hosted::same every_function"

# Then a table of the times, also after a failure.
test: build
	@tools/setup servers tests
	@rm -f target/times
	@$(MAKE) --no-print-directory layers; status=$$?; tools/timed; exit $$status

# Beside each other, and first what waits most: servers, and other people's programs. What only computes comes last, when
# nothing else has a use for the processors. `also` is what .ci/run adds.
test-all: export SNOWFLAKE_PG_TESTS = all
test-all: build
	@tools/setup servers tests $(programs_need)
	@rm -f target/times
	@echo "==> Testing: what a part says comes when it has ended"
	@$(MAKE) --no-print-directory --jobs 3 --keep-going --output-sync=target last=ready suite/servers suite/programs $(also) suite/loom suite/core; \
		status=$$?; tools/timed; exit $$status

suite/loom suite/core: $(last)

# One of the suites that take minutes: see tools/by_date.
by-date: build
	@tools/by_date

# What .ci/run does before: all that is compiled, and fetched meanwhile. The library's optimization has one processor at its end.
compiled: lint build tests-compiled loom-compiled programs-fetched

tests-compiled: setup
	cargo build --locked --package disk_faults
	$(foreach package,snowflake_core lease_model mark_model fleet_simulation promises,\
		cargo test --locked --quiet --no-run --package $(package) &&) true

loom-compiled: setup
	RUSTFLAGS="--cfg loom" $(loom) --no-run

programs-fetched: setup
	@tools/setup $(programs_need)

layers:
	@echo "==> Testing without servers: the core, leases of workers, a simulated fleet, and interleavings (two minutes)"
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target suite/core suite/loom
	@$(MAKE) --no-print-directory suite/servers

test-versions: setup
	@tools/setup servers tests
	cargo build --locked --package disk_faults
	@tools/test_versions "$(TESTS)" $(or $(VERSIONS),$(shell sort --reverse debian/pgversions))

lint: setup
	@tools/setup lint
	cargo fmt --all --check
	cargo clippy --locked $(headerless) --all-targets -- --deny warnings
	$(cargo_extension) clippy $(features) -- --deny warnings
	$(cargo_extension) clippy $(features) --package naive_generator -- --deny warnings
	RUSTDOCFLAGS="--deny warnings" cargo doc --locked --no-deps $(headerless)
	target/lint/bin/cargo-deny --locked --features pg$(pg_major) check licenses bans sources $(if $(ADVISORIES),advisories)

# What RECORD=1 keeps is a whole run, and of a commit that others can check out.
bench: build
	@test -z "$(RECORD)" || { test -z "$(QUICK)$(PARTS)" && git diff --quiet HEAD; } || \
		{ echo "==> RECORD=1 wants a whole run, without QUICK and PARTS, and all changes committed" >&2; exit 1; }
	@tools/setup servers
	@echo "==> Building what is measured beside it"
	$(cargo_extension) build $(features) --package naive_generator
	@cargo bench --locked --profile dev --package testbed --bench compare -- $(PARTS)
	$(if $(RECORD),rm -rf docs/benchmarks && mkdir docs/benchmarks && cp target/bench/results.md target/bench/*.svg docs/benchmarks)

fuzz: build
	@tools/setup servers
	@$(demo) fuzz "$(SECONDS)" "$(SEED)"

clean:
	cargo clean
	find tests/programs/clients -name node_modules -prune -exec rm -rf {} +

include tools/packages.mk # install, and the names of make pack
include tools/release.mk # others of them, release-check and publish-as
include tools/names.mk # demo, suite and picture
