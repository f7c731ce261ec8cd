# What is installed, and in which packages.

version_of = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(1))
version = $(call version_of,snowflake_pg.control)
# Those that can still change have versions of their own.
adopt_version = $(call version_of,sql/adopt/snowflake_adopt.control)
feed_version = $(call version_of,sql/feed/snowflake_feed.control)
hosted_version = $(call version_of,sql/hosted/snowflake_hosted.control)
library = target/release/libsnowflake_pg.so
# Which PostgreSQL the library says that it was built for: src/lib.rs has the text.
built_for = $(shell LC_ALL=C grep -aos 'snowflake_pg built for PostgreSQL [0-9][0-9]\.' $(library) | sed 's/.* //;s/\.//')
make_here = make$(if $(PG_CONFIG), PG_CONFIG=$(PG_CONFIG))
# Prints files with an empty line between them, without the markers of tests/mutants.
join = awk 'FNR == 1 && NR > 1 { print "" } !/^ *-- mutant: /'
# Prints a script: the parts in a folder of sql, by their names.
joined = $(join) $(sort $(wildcard sql/$(1)/*.sql))
# Prints the script for hosted databases, from this folder: install.sql, with the parts in it that parts.sql lists.
join_hosted = sed -n 's|^\\ir |$(1)/|p' $(1)/parts.sql | xargs $(join) | sed -e '/^-- The parts of parts.sql/{r /dev/stdin' -e d -e '}' \
	-e '/^ *-- mutant: /d' $(1)/install.sql
# Prints a script that does without the extension, from this folder: script.psql, with the parts in it.
join_script = $(join) $(1)/[0-9]*.sql | sed -e '/^-- The parts of/{r /dev/stdin' -e d -e '}' $(1)/script.psql
upgrades = $(wildcard sql/snowflake_*--*--*.sql)
# Prints the script that updates snowflake_adopt: what its tables need from an older version on, and then all that is no table.
update_adopt = $(join) sql/adopt/update.psql $(wildcard sql/adopt/from-$(1).psql) $(filter-out %/00_kept.sql,$(sort $(wildcard sql/adopt/*.sql))) | \
	sed -e 's/^CREATE \(FUNCTION\|PROCEDURE\|VIEW\) /CREATE OR REPLACE \1 /'
# Older releases of an extension, each of which its statements upgrade.
older = $(filter-out $(2),$(shell sed -n 's/.*  $(1)--\([0-9.]*\)\.sql$$/\1/p' tests/sql/extension/released/SHA256SUMS))
scripts_into = target

.PHONY: install uninstall print-adopt-update

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
	install -m 644 snowflake_pg.control sql/adopt/snowflake_adopt.control sql/registry/snowflake_registry.control sql/feed/snowflake_feed.control $(upgrades) "$(DESTDIR)$$($(pg_config) --sharedir)/extension/"
	$(call joined,extension) | install -m 644 /dev/stdin "$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_pg--$(version).sql"
	$(call joined,adopt) | install -m 644 /dev/stdin "$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_adopt--$(adopt_version).sql"
	$(call joined,registry) | install -m 644 /dev/stdin "$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_registry--$(version).sql"
	$(call joined,feed) | install -m 644 /dev/stdin "$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_feed--$(feed_version).sql"
	@for old in $(call older,snowflake_registry,$(version)); do \
		$(call joined,registry) | install -m 644 /dev/stdin "$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_registry--$$old--$(version).sql"; \
	done
	@$(foreach old,$(call older,snowflake_adopt,$(adopt_version)),$(call update_adopt,$(old)) | \
		install -m 644 /dev/stdin "$(DESTDIR)$$($(pg_config) --sharedir)/extension/snowflake_adopt--$(old)--$(adopt_version).sql" &&) true

# For a test.
print-adopt-update:
	@$(call update_adopt,$(OLD))

# For databases that cannot have the extensions. A release has all; packages do not.
## the scripts of plain SQL, for hosted databases (a second)
pack/scripts:
	@mkdir -p "$(scripts_into)"
	@$(call join_hosted,sql/hosted) >"$(scripts_into)/snowflake_hosted.sql"
	@$(call join_script,sql/registry) >"$(scripts_into)/snowflake_registry.sql"
	@$(call join_script,sql/feed) >"$(scripts_into)/snowflake_feed.sql"
	@echo "==> $(foreach name,hosted registry feed,$(scripts_into)/snowflake_$(name).sql)"

## an image of the extensions for CloudNativePG, PostgreSQL 18 or later (DEB=package, or what is built)
pack/image: $(if $(DEB),,build)
	@tools/setup image
	@rm -rf target/image && mkdir -p target/image/root
	@$(if $(DEB),dpkg-deb --extract $(DEB) target/image/root,$(MAKE) --no-print-directory install DESTDIR=$(CURDIR)/target/image/root)
	@tools/image target/image/root

# What any version of install has put there, as pgxn uninstall wants it.
uninstall:
	rm -f "$(DESTDIR)$$($(pg_config) --pkglibdir)/snowflake_pg.so"
	cd "$(DESTDIR)$$($(pg_config) --sharedir)/extension" && rm -f $(foreach name,pg adopt registry feed hosted,snowflake_$(name).* snowflake_$(name)--*.sql)

# Of the working tree. The rules of debian/ work with dpkg-buildpackage, too. A network is at hand, so the library says what is
# linked into it. debian/rules alone goes without.
## a Debian package for each PostgreSQL whose headers are installed (four minutes for each)
pack/deb: export AUDITABLE = 1
pack/deb: export PG_SUPPORTED_VERSIONS ?= installed
pack/deb: setup
	@tools/setup packages
	@echo "==> Building packages for PostgreSQL $$(pg_buildext supported-versions | xargs)"
	rm -rf target/deb/*.deb target/deb/dbgsym
	mkdir -p target/deb/dbgsym
	pg_buildext updatecontrol
	DEB_RULES_REQUIRES_ROOT=no debian/rules clean binary DEB_DIR=target/deb
	mv target/deb/*-dbgsym_*.deb target/deb/dbgsym
	@ls target/deb/*.deb target/deb/dbgsym/*.deb

## the last commit for PGXN, and the functions in plain SQL, also for dbdev (a second)
pack/dist:
	@mkdir -p target
	git archive --format zip --prefix snowflake_pg-$(version)/ --output target/snowflake_pg-$(version).zip HEAD
	@echo "==> target/snowflake_pg-$(version).zip"
	@rm -rf target/dbdev target/committed && mkdir -p target/dbdev target/committed
	git archive HEAD Makefile tools/names.mk tools/packages.mk tools/release.mk sql | tar --extract --directory target/committed
	@$(MAKE) --no-print-directory --directory target/committed pack/scripts scripts_into=$(CURDIR)/target
	cp target/committed/sql/hosted/README.md target/committed/sql/hosted/snowflake_hosted.control target/dbdev
	cp target/snowflake_hosted.sql target/dbdev/snowflake_hosted--$(hosted_version).sql
	@echo "==> target/dbdev"

# The same commit gives the same bytes, with the same xz.
unpacked = snowflake_pg-$(version)
tarball = target/$(unpacked)-vendored.tar.xz
## the last commit with all crates, for builds without network (two minutes)
pack/tarball:
	@tools/setup vendor
	rm -rf target/vendored && mkdir -p target/vendored
	git archive --prefix $(unpacked)/ HEAD | tar --extract --directory target/vendored
	cd target/vendored/$(unpacked) && $(CURDIR)/target/vendor/bin/cargo-vendor-filterer --versioned-dirs \
		--platform x86_64-unknown-linux-gnu --platform aarch64-unknown-linux-gnu --keep-dep-kinds no-dev vendor 2>../log || \
		{ tail -n 20 ../log >&2; exit 1; }
	printf '[source.crates-io]\nreplace-with = "vendored"\n[source.vendored]\ndirectory = "vendor"\n' \
		>target/vendored/$(unpacked)/.cargo/config.toml
	tar --create --directory target/vendored --format gnu --sort name --owner 0 --group 0 --numeric-owner \
		--mode u=rwX,go=rX --mtime "@$$(git log -1 --format=%ct)" $(unpacked) | xz --threads 1 >$(tarball)
	@rm -rf target/vendored
	@echo "==> $(tarball)"

# Without network, and in the same directory everywhere, since an RPM names it. On a Red Hat with PGDG's packages, rpmbuild needs
# only pgmajorversion.
## a package for Red Hat's distributions, for the PostgreSQL of PG_CONFIG (six minutes)
pack/rpm: setup pack/tarball
	@tools/setup rpm
	@rm -rf target/rpm && mkdir -p target/rpm/SOURCES
	@install -m 644 $(tarball) contrib/packaging/rpm/snowflake_pg.spec target/rpm/SOURCES
	unshare --map-root-user --net --mount sh -c 'mount --bind target/rpm /mnt && cd /mnt && exec "$$@"' sh \
		rpmbuild -ba --nodeps --quiet --define "_topdir /mnt" --define "_buildhost localhost" --define "pgmajorversion $(pg_major)" \
		--define "pgconfig $$(command -v $(pg_config))" --define "pgpkglibdir $$($(pg_config) --pkglibdir)" \
		--define "pgsharedir $$($(pg_config) --sharedir)" SOURCES/snowflake_pg.spec
	@mv target/rpm/RPMS/*/*.rpm target/rpm/SRPMS/*.rpm target/rpm/
	@rm -rf target/rpm/*/
	@ls target/rpm/*.rpm
