// What the clients of this folder do with the time that the server computes.

const numbers = (rows) => rows.map(({ n }) => n);

/** Calls these queries in their order, and prints what they find. */
export async function report({ since, until, create, latest, page }) {
  const [hour, day] = [3600_000, 24 * 3600_000].map((ms) => new Date(Date.now() - ms));
  const found = { since: numbers(await since(hour)).reverse(), until: numbers(await until(day, hour)) };
  const created = Number((await create(4)).createdAt);
  console.log(JSON.stringify({ ...found, created, latest: (await latest()).n, page: numbers(await page()) }));
}
