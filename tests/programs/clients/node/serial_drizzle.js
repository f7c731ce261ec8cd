// Tables that know nothing of Snowflake IDs: bigint or number. Drizzle compares its migrations with files.
import { generateDrizzleJson, generateMigration } from "drizzle-kit/api";
import { eq } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, bigserial, integer, pgTable, serial, text } from "drizzle-orm/pg-core";
import pg from "pg";
import { numbers, report } from "./report.js";

const is_bigint = process.argv[2] === "bigint";
const users = pgTable("users", {
  id: is_bigint ? bigserial({ mode: "bigint" }).primaryKey() : serial().primaryKey(),
  name: text(),
});
const orders = pgTable("orders", {
  id: (is_bigint ? bigint({ mode: "bigint" }) : integer()).primaryKey().generatedAlwaysAsIdentity(),
  n: integer(),
  userId: (is_bigint ? bigint({ mode: "bigint" }) : integer()).references(() => users.id),
});

const client = new pg.Client();
await client.connect();
for (const statement of await generateMigration(generateDrizzleJson({}), generateDrizzleJson({ users, orders }))) {
  await client.query(statement);
}
const db = drizzle(client);
const [user] = await db.insert(users).values({ name: "Ada" }).returning();
const rows = await db.insert(orders).values(numbers.map((n) => ({ n, userId: user.id }))).returning();
if ((await db.select().from(orders).where(eq(orders.userId, user.id))).length !== 500) throw new Error("not found");
report(rows.map(({ n, id }) => [n, id]));
await client.end();
