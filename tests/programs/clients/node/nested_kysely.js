// Rows within rows, which Kysely reads as JSON.
import { Kysely, PostgresDialect } from "kysely";
import { jsonArrayFrom } from "kysely/helpers/postgres";
import pg from "pg";
import { reportNested } from "./report.js";

const db = new Kysely({ dialect: new PostgresDialect({ pool: new pg.Pool() }) });
const rows = await db
  .selectFrom("customers")
  .select(["customers.id"])
  .select((customer) => [
    // recipe
    jsonArrayFrom(
      customer.selectFrom("orders").selectAll().whereRef("orders.customer_id", "=", "customers.id"),
    ).as("orders"),
    // end
  ])
  .execute();
reportNested(rows, (order) => order.customer_id);
await db.destroy();
