import psycopg
from report import report

with psycopg.connect("") as connection:
    connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)")
    # recipe
    rows = connection.execute(
        "INSERT INTO orders (n) SELECT unnest(%s::integer[]) RETURNING n, id", [list(range(500))]
    ).fetchall()
    # end
report(dict(rows))
