// The usual entity: TypeORM sends DEFAULT for a time that it has not got.
import typeorm from "typeorm";
import { report } from "./created_at.js";

const Order = new typeorm.EntitySchema({
  name: "orders",
  columns: {
    id: { type: "bigint", primary: true, default: () => "snowflake_nextval()" },
    n: { type: "integer" },
    // recipe
    createdAt: { name: "created_at", type: "timestamptz", createDate: true },
    // end
  },
});
const source = new typeorm.DataSource({
  type: "postgres", host: process.env.PGHOST, username: process.env.PGUSER, database: process.env.PGDATABASE,
  entities: [Order],
});
await source.initialize();
const orders = source.getRepository(Order);
const { And, LessThan, MoreThanOrEqual } = typeorm;
await report({
  since: (hour) => orders.find({ where: { createdAt: MoreThanOrEqual(hour) }, order: { createdAt: "DESC" }, take: 10 }),
  until: (day, hour) => orders.findBy({ createdAt: And(MoreThanOrEqual(day), LessThan(hour)) }),
  create: (n) => orders.save({ n }),
  latest: async () => (await orders.find({ order: { createdAt: "DESC" }, take: 1 }))[0],
  page: () => orders.find({ order: { createdAt: "DESC", id: "DESC" }, skip: 1, take: 1 }),
});
await source.destroy();
