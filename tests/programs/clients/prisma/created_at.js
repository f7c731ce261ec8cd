// A model with a time that the server computes.
import { createRequire } from "node:module";
import { PrismaPg } from "@prisma/adapter-pg";

const { PrismaClient } = createRequire(import.meta.url)("./node_modules/.prisma/created_at");
const prisma = new PrismaClient({ adapter: new PrismaPg({}) });
const [hour, day] = [3600_000, 24 * 3600_000].map((ms) => new Date(Date.now() - ms));
const numbers = (rows) => rows.map(({ n }) => n);

const since = await prisma.order.findMany({
  where: { createdAt: { gte: hour } }, orderBy: { createdAt: "desc" }, take: 10,
});
const until = await prisma.order.findMany({ where: { createdAt: { gte: day, lt: hour } } });
const { createdAt } = await prisma.order.create({ data: { n: 4 } });
const latest = await prisma.order.findFirst({ orderBy: { createdAt: "desc" } });
const page = await prisma.order.findMany({ orderBy: [{ createdAt: "desc" }, { id: "desc" }], skip: 1, take: 1 });
console.log(JSON.stringify({
  since: numbers(since).reverse(), until: numbers(until), created: Number(createdAt), latest: latest.n, page: numbers(page),
}));
await prisma.$disconnect();
