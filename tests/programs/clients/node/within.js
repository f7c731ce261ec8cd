import { sql as fragment } from "drizzle-orm";
import { drizzle } from "drizzle-orm/node-postgres";
import { bigint, integer, pgTable } from "drizzle-orm/pg-core";
import pg from "pg";
import postgres from "postgres";
import { DataTypes, Sequelize } from "sequelize";
import typeorm from "typeorm";

const hour = new Date(Date.now() - 3600_000);
const found = {};
const keep = async (client, rows) => { found[`since, ${client}`] = (await rows).map(({ n }) => n); };

const client = new pg.Client();
await client.connect();
const { rows } = await client.query("SELECT n FROM orders WHERE snowflake_within(id, $1)", [hour]);
await keep("node-postgres", rows);

{
  const sql = postgres();
  await keep("postgres.js", sql`SELECT n FROM orders WHERE snowflake_within(id, ${hour})`);
  await sql.end();
}
{
  const orders = pgTable("orders", { id: bigint("id", { mode: "bigint" }).primaryKey(), n: integer("n") });
  const db = drizzle(client);
  const sql = fragment;
  await keep("Drizzle",
    // recipe
    db.select().from(orders).where(sql`snowflake_within(${orders.id}, ${hour})`)
    // end
  );
}
{
  const Order = new typeorm.EntitySchema({
    name: "orders",
    columns: { id: { type: "bigint", primary: true }, n: { type: "integer" } },
  });
  const source = new typeorm.DataSource({
    type: "postgres", host: process.env.PGHOST, username: process.env.PGUSER, database: process.env.PGDATABASE,
    entities: [Order],
  });
  await source.initialize();
  const orders = source.getRepository(Order);
  const { Raw } = typeorm;
  await keep("TypeORM",
    // recipe
    orders.findBy({ id: Raw((id) => `snowflake_within(${id}, :hour)`, { hour }) })
    // end
  );
  await source.destroy();
}
{
  const sequelize = new Sequelize(process.env.PGDATABASE, process.env.PGUSER, "", {
    dialect: "postgres", host: process.env.PGHOST, logging: false,
  });
  const Order = sequelize.define(
    "order",
    { id: { type: DataTypes.BIGINT, primaryKey: true }, n: DataTypes.INTEGER },
    { tableName: "orders", timestamps: false },
  );
  await keep("Sequelize",
    // recipe
    Order.findAll({ where: sequelize.fn("snowflake_within", sequelize.col("id"), hour) })
    // end
  );
  await sequelize.close();
}
await client.end();
console.log(JSON.stringify(found));
