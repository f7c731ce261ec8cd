// Which shard has the row of an ID; docs/sharding.md says how to shard by it. shardOf() is the remainder of a hash
// partition, and PgDog's shard; citusShard() counts from 0 in the order of shardminvalue; workerShard() is the remainder
// of a partition by snowflake_flat_worker_ops. IDs are of type bigint.

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
