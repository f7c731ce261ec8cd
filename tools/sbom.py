"""Writes what is linked into the library as CycloneDX, which its schema accepts, for a version of PostgreSQL.

cargo-cyclonedx knows licenses and checksums, and lists macros, too; cargo tree says what is linked. The same commit gives
the same file."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

FOR = ["--features", f"pg{sys.argv[1]}", "--target", "x86_64-unknown-linux-gnu"]


def run(*command, **options):
    """What a command prints."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options).stdout


def whole(copy):
    """What cargo-cyclonedx says of a copy of the last commit, since it writes beside each manifest."""
    subprocess.run("git archive HEAD | tar --extract --directory " + copy, shell=True, check=True)
    tools = Path("target/sbom/bin").resolve()
    environment = {**os.environ, "SOURCE_DATE_EPOCH": run("git", "log", "-1", "--format=%ct").strip()}
    command = [f"{tools}/cargo-cyclonedx", "cyclonedx", "--quiet", "--format", "json", "--spec-version", "1.5"]
    run(*command, "--no-build-deps", *FOR, "--override-filename", "sbom", cwd=copy, env=environment)
    return json.loads(Path(copy, "sbom.json").read_text("utf-8").replace(f"path+file://{copy}", "path+file:///snowflake_pg"))


def linked(copy):
    """The crates that are linked, as name and version."""
    edges = ["--edges", "normal,no-proc-macro", "--prefix", "none", "--format", "{p}"]
    lines = run("cargo", "tree", "--locked", "--package", "snowflake_pg", *FOR, *edges, cwd=copy).splitlines()
    return {tuple(line.replace(" v", " ").split(" ")[:2]) for line in lines}


def main():
    """Writes the file that the second argument names."""
    with tempfile.TemporaryDirectory() as copy:
        bom, crates = whole(copy), linked(copy)
    own = bom["metadata"]["component"]
    own["purl"] = f"pkg:cargo/snowflake_pg@{own['version']}"
    own.pop("components")
    bom["components"] = [one for one in bom["components"] if (one["name"], one["version"]) in crates]
    kept = {own["bom-ref"], *(one["bom-ref"] for one in bom["components"])}
    rows = [row for row in bom["dependencies"] if row["ref"] in kept]
    for row in rows:
        row["dependsOn"] = [ref for ref in row.get("dependsOn", []) if ref in kept]
    bom["dependencies"] = rows
    missing = crates - {(one["name"], one["version"]) for one in [own, *bom["components"]]}
    assert not missing, f"cargo-cyclonedx does not list {missing}"
    text = json.dumps(bom, indent=2) + "\n"
    wrong = JsonStrictValidator(SchemaVersion.V1_5).validate_str(text)
    assert wrong is None, wrong
    Path(sys.argv[2]).write_text(text, "utf-8")


main()
