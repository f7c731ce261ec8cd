// Entities that know nothing of Snowflake IDs, and what `synchronize` would do to their tables.
import typeorm from "typeorm";
import { numbers, report } from "./report.js";

const User = new typeorm.EntitySchema({
  name: "users",
  columns: { id: { type: process.argv[2] ?? Number, primary: true, generated: "increment" }, name: { type: String } },
});
const Order = new typeorm.EntitySchema({
  name: "orders",
  columns: { id: { type: process.argv[2] ?? Number, primary: true, generated: "increment" }, n: { type: Number } },
  relations: { user: { type: "many-to-one", target: "users" } },
});

const source = new typeorm.DataSource({
  type: "postgres", host: process.env.PGHOST, username: process.env.PGUSER, database: process.env.PGDATABASE,
  entities: [User, Order], synchronize: true,
});
await source.initialize();
const user = await source.getRepository(User).save({ name: "Ada" });
const orders = numbers.map((n) => ({ n, user }));
await source.getRepository(Order).insert(orders);
const found = await source.getRepository(Order).count({ where: { user: { id: user.id } } });
if (found !== 500) throw new Error(`${found} found`);
const { upQueries } = await source.driver.createSchemaBuilder().log();
report(orders.map(({ n, id }) => [n, id]), upQueries.map(({ query }) => query).join("\n"));
await source.destroy();
