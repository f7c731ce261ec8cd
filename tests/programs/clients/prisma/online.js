// Works with users and their orders without end, and prints after each round what has failed.
import { createRequire } from "node:module";
import { PrismaPg } from "@prisma/adapter-pg";

const { PrismaClient } = createRequire(import.meta.url)("./node_modules/.prisma/serial");
const prisma = new PrismaClient({ adapter: new PrismaPg({}) });

async function work(round) {
  const failures = [];
  const attempt = async (name, part) => {
    try {
      if (!(await part())) throw new Error("it has found something else");
    } catch (error) {
      failures.push(`${name}: ${error.message.trim().split("\n").pop()}`);
    }
  };
  const old = BigInt((round % 500) + 1);
  const user = await prisma.user.create({ data: { name: "new" } });
  const { id } = user;
  await attempt("transaction", () =>
    prisma.$transaction(async (inner) => {
      const other = await inner.user.create({ data: { name: "new", orders: { create: { n: 1 } } } });
      const found = await inner.user.findUnique({ where: { id: other.id }, include: { orders: true } });
      return found.orders.length === 1;
    }),
  );
  await attempt("old", () => prisma.user.update({ where: { id: old }, data: { name: `round ${round}` } }));
  await attempt("find", async () => (await prisma.user.findUnique({ where: { id } })).id === id);
  await attempt("update", () => prisma.user.update({ where: { id }, data: { name: "updated" } }));
  await attempt("many", async () => {
    const data = [{ n: 1, userId: id }, { n: 2, userId: old }];
    return (await prisma.order.createManyAndReturn({ data }))[0].userId === id;
  });
  await attempt("include", async () => {
    const [order] = await prisma.order.findMany({ where: { user: { id } }, include: { user: true } });
    return order.user.id === id;
  });
  await attempt("move", async () => {
    return (await prisma.order.updateMany({ where: { userId: id }, data: { userId: old } })).count === 1;
  });
  await attempt("delete", () => prisma.user.delete({ where: { id } }));
  return failures;
}

for (let round = 0; ; round++) {
  console.log(JSON.stringify(await work(round)));
  await new Promise((resolve) => setTimeout(resolve, 20));
}
