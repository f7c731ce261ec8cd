// Which shard has the row of an ID; docs/sharding.md says how to shard by it. shard_of() is the remainder of a hash
// partition, and PgDog's shard; citus_shard() counts from 0 in the order of shardminvalue; worker_shard() is the
// remainder of a partition by snowflake_flat_worker_ops.

fn mixed(id: i64, mut a: u32, mut b: u32, mut c: u32) -> (u32, u32) {
    a = a.wrapping_add((id ^ id >> 32 ^ id >> 63) as u32);
    for turns in [14, 11, 25, 16, 4, 14, 24] {
        (a, b, c) = (b, (c ^ b).wrapping_sub(b.rotate_left(turns)), a);
    }
    (a, b)
}

fn shard_of(id: i64, shards: u64) -> u64 {
    let (high, low) = mixed(id, 0xe933553e, 0xc5da07a8, 0xfdfd95ed);
    (u64::from(high) << 32 | u64::from(low)).wrapping_add(0x49a0f4dd15e5a8e3) % shards
}

fn citus_shard(id: i64, count: u64) -> u64 {
    let (_, hash) = mixed(id, 0x9e735654, 0x9e735654, 0x9e735654);
    (u64::from(hash ^ 1 << 31) / ((1 << 32) / count)).min(count - 1)
}

fn worker_shard(id: i64, shards: i64) -> i64 {
    (id >> 12 & 1023) % shards
}
