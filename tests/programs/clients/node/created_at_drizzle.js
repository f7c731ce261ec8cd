// A table with a time that the server computes.
import { and, desc, gte, lt, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, integer, pgTable, timestamp } from "drizzle-orm/pg-core";
import pg from "pg";
import { report } from "./created_at.js";

// recipe
const orders = pgTable("orders", {
  id: bigint("id", { mode: "bigint" }).primaryKey().default(sql`snowflake_nextval()`),
  n: integer("n"),
  createdAt: timestamp("created_at", { withTimezone: true }).generatedAlwaysAs(
    sql`to_timestamp(((id >> 22) + 1288834974657)::double precision / 1000::double precision)`,
  ),
});
// end

const client = new pg.Client();
await client.connect();
const db = drizzle(client, { schema: { orders } });
await report({
  since: (hour) => db.select().from(orders).where(gte(orders.createdAt, hour)).orderBy(desc(orders.createdAt)).limit(10),
  until: (day, hour) => db.query.orders.findMany({ where: and(gte(orders.createdAt, day), lt(orders.createdAt, hour)) }),
  create: async (n) => (await db.insert(orders).values({ n }).returning())[0],
  latest: () => db.query.orders.findFirst({ orderBy: desc(orders.createdAt) }),
  page: () => db.select().from(orders).orderBy(desc(orders.createdAt), desc(orders.id)).offset(1).limit(1),
});
await client.end();
