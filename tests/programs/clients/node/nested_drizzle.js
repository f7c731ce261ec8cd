// Rows within rows, which Drizzle reads as JSON. The argument is the type of the keys in the model.
import { relations, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, integer, pgTable } from "drizzle-orm/pg-core";
import pg from "pg";
import { reportNested } from "./report.js";
import { snowflake } from "./snowflake_type.js";

const key = process.argv[2] === "snowflake" ? snowflake : (name) => bigint(name, { mode: "bigint" });
const customers = pgTable("customers", { id: key("id").primaryKey().default(sql`snowflake_nextval()`) });
const orders = pgTable("orders", {
  id: key("id").primaryKey().default(sql`snowflake_nextval()`),
  n: integer("n"),
  customerId: key("customer_id").references(() => customers.id),
});
const customersRelations = relations(customers, ({ many }) => ({ orders: many(orders) }));
const ordersRelations = relations(orders, ({ one }) => ({
  customer: one(customers, { fields: [orders.customerId], references: [customers.id] }),
}));

const client = new pg.Client();
await client.connect();
const db = drizzle(client, { schema: { customers, orders, customersRelations, ordersRelations } });
// recipe
const rows = await db.query.customers.findMany({ with: { orders: true } });
// end
reportNested(rows, (order) => order.customerId);
await client.end();
