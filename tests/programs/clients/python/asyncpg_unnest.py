import asyncio

import asyncpg
from report import report


async def main():
    connection = await asyncpg.connect()
    await connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)")
    # recipe
    rows = await connection.fetch(
        "INSERT INTO orders (n) SELECT unnest($1::integer[]) RETURNING n, id", list(range(500))
    )
    # end
    await connection.close()
    report({row["n"]: row["id"] for row in rows})


asyncio.run(main())
