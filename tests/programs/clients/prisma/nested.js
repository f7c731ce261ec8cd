// Rows within rows, by both of Prisma's strategies.
import { createRequire } from "node:module";
import { PrismaPg } from "@prisma/adapter-pg";
import { reportNested } from "../node/report.js";

const { PrismaClient } = createRequire(import.meta.url)("./node_modules/.prisma/nested");
const prisma = new PrismaClient({ adapter: new PrismaPg({}) });
const relationLoadStrategy = process.argv[2];
const rows = await prisma.customer.findMany({ relationLoadStrategy, include: { orders: true } });
reportNested(rows, (order) => order.customerId);
await prisma.$disconnect();
