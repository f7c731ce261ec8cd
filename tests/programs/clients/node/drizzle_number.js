import { sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, integer, pgTable } from "drizzle-orm/pg-core";
import pg from "pg";
import { numbers, report } from "./report.js";

const orders = pgTable("orders", {
  id: bigint("id", { mode: "number" }).primaryKey().default(sql`snowflake_nextval()`),
  n: integer("n"),
});

const client = new pg.Client();
await client.connect();
await client.query("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)");
const rows = await drizzle(client).insert(orders).values(numbers.map((n) => ({ n }))).returning();
report(rows.map(({ n, id }) => [n, id]));
await client.end();
