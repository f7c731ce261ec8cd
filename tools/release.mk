# What a release needs beside its packages: what is linked into the library, checksums, and where the project is.

sbom = target/snowflake_pg-$(version).cdx.json
# Until the project has a place, these stand for it, for the name on GitHub of who answers for it, and for an address.
place = https://example.com/snowflake_pg
address = The snowflake_pg authors <maintainers@users.noreply.a-seed-2936da01.example>
# Files with a placeholder. This one and the tests keep theirs.
with = git grep --files-with-matches --fixed-strings -e "$1" -- . ':!tools' ':!tests'

.PHONY: release-check publish-as

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

# Once, when the project gets its place: URL=https://github.com/you/snowflake_pg, MAINTAINER="Name <address>".
publish-as: MAINTAINER = $(shell git config user.name) <$(shell git config user.email)>
publish-as: slug = $(shell echo "$(URL)" | cut -d / -f 4-)
publish-as:
	@echo "$(URL)" | grep --quiet --extended-regexp '^https://[^/ ]+/[^/ ]+/[^/ ]+[^/ .]$$' || \
		{ echo "==> Add URL=https://github.com/you/snowflake_pg" >&2; exit 1; }
	@echo "$(MAINTAINER)" | grep --quiet --extended-regexp '^[^<>]+ <[^ @]+@[^ @]+>$$' || \
		{ echo "==> Add MAINTAINER=\"Name <address>\"" >&2; exit 1; }
	$(call with,$(place)) | xargs sed -i 's|$(place)|$(URL)|g'
	$(call with,$(address)) | xargs sed -i 's|$(address)|$(MAINTAINER)|g'
	$(call with,OWNER/snowflake_pg) | xargs sed -i 's|OWNER/snowflake_pg|$(slug)|g'
	sed -i 's|@OWNER$$|@$(firstword $(subst /, ,$(slug)))|' .github/CODEOWNERS
	@git diff --stat
