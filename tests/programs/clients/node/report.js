// What every program of this folder prints: the key of each object as the program has it, and its type.

/** Prints the keys of objects by the numbers that they were inserted with: pairs of both; and what would be migrated. */
export function report(pairs, drift = "") {
  const kinds = new Set(pairs.map(([, key]) => typeof key));
  const keys = Object.fromEntries(pairs.map(([n, key]) => [n, String(key)]));
  console.log(JSON.stringify({ type: [...kinds].join(", "), keys, drift }));
}

export const numbers = [...Array(500).keys()];

/** Prints the keys of customers and, by their numbers, of the orders within them, with the key of the order's customer. */
export function reportNested(rows, customerOf) {
  const orders = rows.flatMap((row) => row.orders.map((order) => [order.n, [String(order.id), String(customerOf(order))]]));
  console.log(JSON.stringify({ customers: rows.map((row) => String(row.id)), orders: Object.fromEntries(orders) }));
}
