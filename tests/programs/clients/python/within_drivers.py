import asyncio
import json
from datetime import datetime, timedelta, timezone

import asyncpg
import psycopg


async def by_asyncpg(hour):
    connection = await asyncpg.connect()
    rows = await connection.fetch("SELECT n FROM orders WHERE snowflake_within(id, $1)", hour)
    await connection.close()
    return [row["n"] for row in rows]


def by_psycopg(hour):
    with psycopg.connect("") as connection:
        rows = connection.execute("SELECT n FROM orders WHERE snowflake_within(id, %s)", [hour])
        return [n for (n,) in rows]


hour = datetime.now(timezone.utc) - timedelta(hours=1)
print(json.dumps({"since, asyncpg": asyncio.run(by_asyncpg(hour)), "since, psycopg": by_psycopg(hour)}))
