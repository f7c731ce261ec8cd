import postgres from "postgres";
import { numbers, report } from "./report.js";

// recipe
const sql = postgres({ types: { bigint: postgres.BigInt } });
// end
await sql`CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)`;
const rows = await sql`INSERT INTO orders ${sql(numbers.map((n) => ({ n })))} RETURNING n, id`;
report(rows.map(({ n, id }) => [n, id]));
await sql.end();
