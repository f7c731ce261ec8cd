import { readFileSync } from "node:fs";

// recipe
function mixed(id, a, b, c) {
  a = (a + Number(BigInt.asIntN(32, id ^ (id >> 32n) ^ (id >> 63n)))) | 0;
  for (const turns of [14, 11, 25, 16, 4, 14, 24]) {
    [a, b, c] = [b, ((c ^ b) - ((b << turns) | (b >>> (32 - turns)))) | 0, a];
  }
  return [a, b];
}

function shardOf(id, shards) {
  const [high, low] = mixed(id, 0xe933553e, 0xc5da07a8, 0xfdfd95ed);
  const hash = (BigInt(high) << 32n) + BigInt(low >>> 0) + 0x49a0f4dd15e5a8e3n;
  return Number(BigInt.asUintN(64, hash) % BigInt(shards));
}

function citusShard(id, count) {
  const hash = mixed(id, 0x9e735654, 0x9e735654, 0x9e735654)[1] + 2 ** 31;
  return Math.min(Math.floor(hash / Math.floor(2 ** 32 / count)), count - 1);
}

function workerShard(id, shards) {
  return Number((id >> 12n) & 1023n) % shards;
}
// end

const lines = readFileSync(process.env.SHARDS, "utf8").split("\n").filter((line) => /^[^#]/.test(line));
for (const line of lines) {
  const [id, modulus, shard, , citus, worker] = line.split("\t");
  const found = [shardOf(BigInt(id), +modulus), citusShard(BigInt(id), +modulus), workerShard(BigInt(id), +modulus)];
  if (found.join() !== [shard, citus, worker].join()) throw new Error(`${line}: ${found}`);
}
console.log(lines.length);
