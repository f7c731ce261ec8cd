import { DataTypes, Sequelize } from "sequelize";
import { numbers, report } from "./report.js";

const sequelize = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, "", {
  dialect: "postgres", host: process.env.PGHOST, logging: false,
});
// recipe
const Order = sequelize.define(
  "order",
  {
    id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: sequelize.literal("snowflake_nextval()") },
    n: DataTypes.INTEGER,
  },
  { tableName: "orders", timestamps: false },
);
// end
await Order.sync();
const orders = await Order.bulkCreate(numbers.map((n) => ({ n })), { returning: true });
report(orders.map(({ n, id }) => [n, id]));
await sequelize.close();
