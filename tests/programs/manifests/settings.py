"""Prints the settings of snowflake_pg in a manifest, and the variables of its sets of instances, as JSON."""

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


def sets_in(manifests):
    """The variables of each set of instances, by the name of the set; a set with more than one instance is refused."""
    found = {}
    for instances in (manifest.get("spec", {}).get("instances") for manifest in manifests):
        for one in instances if isinstance(instances, list) else []:
            if "env" in one:
                assert one["replicas"] == 1, f"{one['name']} gives all its instances the same variables"
                assert one["name"] not in found, f"{one['name']} is there twice"
                found[one["name"]] = {variable["name"]: variable["value"] for variable in one["env"]}
    return found


def main():
    """Reads the manifest that the only argument names."""
    with open(sys.argv[1], encoding="utf-8") as manifest:
        manifests = list(yaml.safe_load_all(manifest))
    found = found_in(manifests)
    parameters = {name: str(found[name]) for name in found if name.startswith("snowflake_pg.")}
    print(json.dumps({"parameters": parameters, "sets": sets_in(manifests)}))


main()
