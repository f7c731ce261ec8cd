#!/usr/bin/python3
"""Reads IDs as an application in Python does, and shows what is left of their digits.

Connects by libpq's environment variables, and expects a table ids (plain bigint, exact snowflake) with the same number
in both columns of a row. Prints a table, with a tab between the columns, which tests/programs/clients.rs checks.

Python's own parser keeps a number whole. Digits are lost where numbers become floats: by parse_int=float, as here, in
a column of floats, or in a library that knows no other numbers.
"""

import json

import psycopg2


def shown(value):
    """A value with its type, and with all of its digits: float's own text leaves the last ones out."""
    kind = type(value).__name__
    return f"{kind} {int(value)}" if kind == "float" else f"{kind} {value}"


def main():
    connection = psycopg2.connect("")
    cursor = connection.cursor()

    def found(column, value):
        """The ID of the row that an ID finds: another one's, if its digits have become those."""
        cursor.execute(f"SELECT plain::text FROM ids WHERE {column} = %s", [int(value)])
        row = cursor.fetchone()
        return row[0] if row else "no row"

    cursor.execute("SELECT plain::text, plain, exact, row_to_json(ids)::text FROM ids ORDER BY ids.plain")
    print(
        "digits", "bigint", "snowflake", "bigint in JSON", "row it finds",
        "bigint in JSON, by floats", "row it finds", "snowflake in JSON, by floats", "row it finds", sep="\t",
    )
    for digits, plain, exact, text in cursor.fetchall():
        whole = json.loads(text)
        floats = json.loads(text, parse_int=float)
        print(
            digits, shown(plain), shown(exact), shown(whole["plain"]), found("plain", whole["plain"]),
            shown(floats["plain"]), found("plain", floats["plain"]),
            shown(floats["exact"]), found("exact", floats["exact"]), sep="\t",
        )
    connection.close()


main()
