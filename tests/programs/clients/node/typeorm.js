import typeorm from "typeorm";
import { numbers, report } from "./report.js";

// recipe
const Order = new typeorm.EntitySchema({
  name: "orders",
  columns: {
    id: { type: "bigint", primary: true, default: () => "snowflake_nextval()" },
    n: { type: "integer" },
  },
});
// end

const source = new typeorm.DataSource({
  type: "postgres", host: process.env.PGHOST, username: process.env.PGUSER, database: process.env.PGDATABASE,
  entities: [Order], synchronize: true,
});
await source.initialize();
const orders = numbers.map((n) => ({ n }));
await source.getRepository(Order).insert(orders);
report(orders.map(({ n, id }) => [n, id]));
await source.destroy();
