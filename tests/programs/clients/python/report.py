"""What every program of this folder prints: the key of each object as the program has it, and its type."""

import json


def report(keys, drift=""):
    """Prints the keys of objects by the numbers that they were inserted with, and what would be migrated."""
    kinds = {type(key).__name__ for key in keys.values()}
    print(json.dumps({"type": ", ".join(sorted(kinds)), "keys": {str(n): str(key) for n, key in keys.items()}, "drift": drift}))
