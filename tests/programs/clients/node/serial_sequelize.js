// Models that know nothing of Snowflake IDs, and what `sync({ alter: true })` says of their tables.
import { DataTypes, Sequelize } from "sequelize";
import { numbers, report } from "./report.js";

const sequelize = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, "", {
  dialect: "postgres", host: process.env.PGHOST, logging: false,
});
const User = sequelize.define("user", { name: DataTypes.STRING });
const Order = sequelize.define("order", { n: DataTypes.INTEGER });
User.hasMany(Order);
Order.belongsTo(User);

await sequelize.sync();
const user = await User.create({ name: "Ada" });
const orders = await Order.bulkCreate(numbers.map((n) => ({ n, userId: user.id })), { returning: true });
const found = (await (await User.findByPk(user.id)).getOrders()).length;
const drift = await sequelize.sync({ alter: true }).then(() => "", (error) => error.message);
if (found !== 500) throw new Error(`${found} found`);
report(orders.map(({ n, id }) => [n, id]), drift);
await sequelize.close();
