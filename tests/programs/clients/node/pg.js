import pg from "pg";
import { numbers, report } from "./report.js";

const client = new pg.Client();
await client.connect();
await client.query("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)");
// recipe
const { rows } = await client.query("INSERT INTO orders (n) SELECT unnest($1::integer[]) RETURNING n, id", [numbers]);
// end
report(rows.map(({ n, id }) => [n, id]));
await client.end();
