// A model with a time that the server computes.
import { DataTypes, Op, Sequelize } from "sequelize";
import { report } from "./created_at.js";

const sequelize = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, "", {
  dialect: "postgres", host: process.env.PGHOST, logging: false,
});
// recipe
const Order = sequelize.define(
  "order",
  {
    id: { type: DataTypes.BIGINT, primaryKey: true, defaultValue: sequelize.literal("snowflake_nextval()") },
    n: DataTypes.INTEGER,
    createdAt: { type: DataTypes.DATE, field: "created_at" },
  },
  { tableName: "orders", createdAt: false, updatedAt: false },
);
// end
const order = [["createdAt", "DESC"]];
await report({
  since: (hour) => Order.findAll({ where: { createdAt: { [Op.gte]: hour } }, order, limit: 10 }),
  until: (day, hour) => Order.findAll({ where: { createdAt: { [Op.gte]: day, [Op.lt]: hour } } }),
  create: (n) => Order.create({ n }),
  latest: () => Order.findOne({ order }),
  page: () => Order.findAll({ order: [...order, ["id", "DESC"]], offset: 1, limit: 1 }),
});
await sequelize.close();
