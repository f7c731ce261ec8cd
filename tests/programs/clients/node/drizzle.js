import { generateDrizzleJson, generateMigration } from "drizzle-kit/api";
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import pg from "pg";
import { numbers, report } from "./report.js";
import { snowflake } from "./snowflake_type.js";

// recipe
import { sql } from "drizzle-orm";
import { integer, pgTable } from "drizzle-orm/pg-core";

export const orders = pgTable("orders", {
  id: snowflake("id").primaryKey().default(sql`snowflake_nextval()`),
  n: integer("n"),
});
// end

const client = new pg.Client();
await client.connect();
for (const statement of await generateMigration(generateDrizzleJson({}), generateDrizzleJson({ orders }))) {
  await client.query(statement);
}
const db = drizzle(client);
const rows = await db.insert(orders).values(numbers.map((n) => ({ n }))).returning();
const found = await db.select().from(orders).where(eq(orders.id, rows[7].id));
if (found.length !== 1 || found[0].n !== 7) throw new Error("not found");
report(rows.map(({ n, id }) => [n, id]));
await client.end();
