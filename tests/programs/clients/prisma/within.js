import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "@prisma/client";

const hour = new Date(Date.now() - 3600_000);
const prisma = new PrismaClient({ adapter: new PrismaPg({}) });
const rows = await (
  // recipe
  prisma.$queryRaw`SELECT n FROM orders WHERE snowflake_within(id, ${hour})`
  // end
);
console.log(JSON.stringify({ since: rows.map(({ n }) => n) }));
await prisma.$disconnect();
