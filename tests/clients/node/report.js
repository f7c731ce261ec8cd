// What every program of this folder prints: the key of each object as the program has it, and its type.

/** Prints the keys of objects by the numbers that they were inserted with: pairs of both; and what would be migrated. */
export function report(pairs, drift = "") {
  const kinds = new Set(pairs.map(([, key]) => typeof key));
  const keys = Object.fromEntries(pairs.map(([n, key]) => [n, String(key)]));
  console.log(JSON.stringify({ type: [...kinds].join(", "), keys, drift }));
}

export const numbers = [...Array(500).keys()];
