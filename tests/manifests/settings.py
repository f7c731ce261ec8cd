"""Prints the settings of snowflake_pg in a manifest as JSON, wherever the manifest has them."""

import json
import sys

import yaml


def of_file(text):
    """The settings in the text of a postgresql.conf."""
    lines = (line.split("#")[0] for line in text.splitlines())
    pairs = (line.split("=", 1) for line in lines if "=" in line)
    return {name.strip(): value.strip().strip("'") for name, value in pairs}


def found_in(node):
    """The settings below a node: a map of parameters, or a postgresql.conf."""
    found = {}
    for name, child in node.items() if isinstance(node, dict) else enumerate(node):
        if name in ("parameters", "postgresql.conf") and isinstance(child, dict):
            found.update(child)
        elif name in ("content", "postgresql.conf") and isinstance(child, str):
            found.update(of_file(child))
        elif isinstance(child, (dict, list)):
            found.update(found_in(child))
    return found


def main():
    """Reads the manifest that the only argument names."""
    with open(sys.argv[1], encoding="utf-8") as manifest:
        found = found_in(list(yaml.safe_load_all(manifest)))
    print(json.dumps({name: str(found[name]) for name in found if name.startswith("snowflake_pg.")}))


main()
