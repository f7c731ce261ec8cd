# Which shard has the row of an ID; docs/sharding.md says how to shard by it. shard_of() is the remainder of a hash
# partition, and PgDog's shard; citus_shard() counts from 0 in the order of shardminvalue; worker_shard() is the remainder
# of a partition by snowflake_flat_worker_ops.

def mixed(id, a, b, c):
    a = (a + (id ^ id >> 32 ^ id >> 63)) % 2**32
    for turns in (14, 11, 25, 16, 4, 14, 24):
        a, b, c = b, ((c ^ b) - (b << turns | b >> 32 - turns)) % 2**32, a
    return a, b


def shard_of(id, shards):
    high, low = mixed(id, 0xE933553E, 0xC5DA07A8, 0xFDFD95ED)
    return ((high << 32) + low + 0x49A0F4DD15E5A8E3) % 2**64 % shards


def citus_shard(id, count):
    _, hash = mixed(id, 0x9E735654, 0x9E735654, 0x9E735654)
    return min((hash ^ 1 << 31) // (2**32 // count), count - 1)


def worker_shard(id, shards):
    return (id >> 12 & 1023) % shards
