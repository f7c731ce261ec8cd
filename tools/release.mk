# What a release needs beside its packages: what is linked into the library, checksums, and where the project is.

sbom = target/snowflake_pg-$(version).cdx.json
# Until the project has a place, these stand for it, for the name on GitHub of who answers for it, and for an address.
place = https://example.com/snowflake_pg
address = The snowflake_pg authors <maintainers@users.noreply.a-seed-2936da01.example>
# A line of its own wherever it stands.
unreleased = Nothing has been released yet.
# Files with a placeholder. This one and the tests keep theirs.
with = git grep --files-with-matches --fixed-strings -e "$1" -- . ':!tools' ':!tests'

.PHONY: release-check publish-as freeze dated

release-check:
	@tools/release_check $(STEPS)

## what is linked into the library of the last commit, as CycloneDX (seconds)
pack/sbom: setup
	@tools/setup sbom manifests
	@target/manifests/venv/bin/python tools/sbom.py "$(pg_major)" $(sbom)
	@echo "==> $(sbom)"

## the sums of what is to be published (DIRECTORY=target/release-files)
pack/sums: DIRECTORY = target/release-files
pack/sums:
	@test -d "$(DIRECTORY)" || { echo "==> There is no $(DIRECTORY). Add DIRECTORY=…" >&2; exit 1; }
	cd "$(DIRECTORY)" && sums=$$(find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum) && \
		echo "$$sums" >SHA256SUMS

# What no later version may change: scripts, names, and bytes of files. Below 1.0, scripts can change until they are released.
frozen = snowflake_pg--$(version).sql snowflake_registry--$(version).sql
released = tests/sql/extension/released
core_tests = ../../../../crates/snowflake_core/tests
ids = $(notdir $(wildcard $(released)/snowflake_pg--$(version).ids))
script_of = $(call joined,$(or $(filter adopt registry feed,$(1)),extension))

freeze:
	@grep --quiet '^## $(version) (unreleased)' CHANGELOG.md || { echo "==> $(version) was released: raise the version" >&2; exit 1; }
	@$(foreach script,$(frozen),$(call script_of,$(patsubst snowflake_%,%,$(firstword $(subst --, ,$(script))))) >$(released)/$(script) &&) true
	@sed -n '/^frozen field of .*: \(\*\*free\|checksum\|header; its length\)/d; s/^frozen //p' tests/sql/extension/surface >$(released)/snowflake_pg--$(version).surface
	@sed -n '/^## What 1.0 leaves open$$/,/^## /d; s/^| \([0-9A-Z]\{5\}\(, [0-9A-Z]\{5\}\)*\) | \([^|]*\) |.*/\1 | \3/p' docs/errors.md >$(released)/snowflake_pg--$(version).errors
	@$(if $(upgrades),cp $(upgrades) $(released))
	@# Bytes that a release has written stay as they are, and so do answers for hash partitions and shards.
	@cd $(released) && made="$(frozen) snowflake_pg--$(version).surface snowflake_pg--$(version).errors $(ids) $(notdir $(upgrades))" && \
		for bytes in $(core_tests)/formats/version_*/* $(core_tests)/shards.tsv; do \
			grep --quiet '^## [0-9.]* ([0-9]' "$(CURDIR)/CHANGELOG.md" && grep --quiet --fixed-strings "  $$bytes" SHA256SUMS || made="$$made $$bytes"; \
		done && \
		others=$$(echo "$$made" | tr ' ' '\n' | grep . | grep --invert-match --fixed-strings --file - SHA256SUMS); \
		{ echo "$$others"; sha256sum $$made; } | grep . | LC_ALL=C sort --key 2 >SHA256SUMS.new && mv SHA256SUMS.new SHA256SUMS
	@git diff --stat -- $(released)

# The version is released on this day, with all scripts, and what is true until then goes.
dated: frozen += snowflake_adopt--$(adopt_version).sql snowflake_feed--$(feed_version).sql
dated: freeze
	sed -i "s/^\(## $(version)\) (unreleased)/\1 ($$(date -I))/" CHANGELOG.md
	sed -i "s/^\( -- .*>\)  .*/\1  $$(LC_ALL=C date -R)/" debian/changelog
	sed -i "s/^\* ... ... [0-9]* [0-9]*\( .* - $(version)-1\)$$/* $$(LC_ALL=C date '+%a %b %d %Y')\1/" contrib/packaging/rpm/snowflake_pg.spec
	sed -i 's/"release_status": "testing"/"release_status": "stable"/' META.json
	git grep --files-with-matches '^$(unreleased)$$' -- '*.md' '*.txt' | xargs --no-run-if-empty sed -i '/^$(unreleased)$$/d'

# Once, when the project gets its place: URL=https://github.com/you/snowflake_pg, MAINTAINER="Name <address>".
publish-as: MAINTAINER = $(shell git config user.name) <$(shell git config user.email)>
publish-as: slug = $(shell echo "$(URL)" | cut -d / -f 4-)
publish-as:
	@echo "$(URL)" | grep --quiet --extended-regexp '^https://[^/ ]+/[^/ ]+/[^/ ]+[^/ .]$$' || \
		{ echo "==> Add URL=https://github.com/you/snowflake_pg" >&2; exit 1; }
	@echo "$(MAINTAINER)" | grep --quiet --extended-regexp '^[^<>|&\\]+ <[^ @|&\\]+@[^ @|&\\]+>$$' || \
		{ echo "==> Add MAINTAINER=\"Name <address>\"" >&2; exit 1; }
	$(call with,$(place)) | xargs sed -i 's|$(place)|$(URL)|g'
	$(call with,$(address)) | xargs sed -i 's|$(address)|$(MAINTAINER)|g'
	$(call with,OWNER/snowflake_pg) | xargs sed -i 's|OWNER/snowflake_pg|$(slug)|g'
	sed -i 's|@OWNER$$|@$(firstword $(subst /, ,$(slug)))|' .github/CODEOWNERS
	sed -i 's|^git clone $(URL) && cd .*|git clone $(URL) \&\& cd $(notdir $(URL))|' README.md
	@$(MAKE) --no-print-directory dated
	@git diff --stat
