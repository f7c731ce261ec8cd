import { PrismaPg } from "@prisma/adapter-pg";
import { PrismaClient } from "@prisma/client";
import { numbers, report } from "../node/report.js";

const prisma = new PrismaClient({ adapter: new PrismaPg({}) });
await prisma.$executeRaw`CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer NOT NULL)`;
// recipe
const orders = await prisma.order.createManyAndReturn({ data: numbers.map((n) => ({ n })) });
// end
report(orders.map(({ n, id }) => [n, id]));
await prisma.$disconnect();
