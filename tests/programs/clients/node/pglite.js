// One PGlite for tests/programs/clients/pglite.rs: a line of stdin is a request, and one of stdout its answer, in JSON.
// node pglite.js [DIRECTORY [DUMP]]; an empty DIRECTORY is one in memory.

import { PGlite } from "@electric-sql/pglite";
import { readFile, writeFile } from "node:fs/promises";
import { createInterface } from "node:readline";

const [directory, dump] = process.argv.slice(2);
const options = dump ? { loadDataDir: new Blob([await readFile(dump)]) } : {};
const db = await PGlite.create({ dataDir: directory || undefined, ...options });

const answers = {
  // The rows of the last statement, as texts.
  sql: async (sql) => {
    const results = await db.exec(sql, { rowMode: "array" });
    return results.at(-1).rows.map((row) => row.map((value) => (value === null ? null : String(value))));
  },
  dump: async (path) => writeFile(path, Buffer.from(await (await db.dumpDataDir("none")).arrayBuffer())),
  // From now on, the clock shows this.
  clock: async (ms) => {
    Date.now = () => ms;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [[name, argument]] = Object.entries(JSON.parse(line));
  let answer;
  try {
    answer = { done: (await answers[name](argument)) ?? null };
  } catch (error) {
    answer = { error: `${error.message} ${error.detail ?? ""} ${error.hint ?? ""}` };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
