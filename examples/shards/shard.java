// Which shard has the row of an ID; docs/sharding.md says how to shard by it. shardOf() is the remainder of a hash
// partition, and PgDog's shard; citusShard() counts from 0 in the order of shardminvalue; workerShard() is the remainder
// of a partition by snowflake_flat_worker_ops. Put these into a class of yours.

static long mixed(long id, int a, int b, int c) {
    a += (int) (id ^ id >> 32 ^ id >> 63);
    for (int turns : new int[] {14, 11, 25, 16, 4, 14, 24}) {
        int next = (c ^ b) - Integer.rotateLeft(b, turns);
        c = a;
        a = b;
        b = next;
    }
    return (long) a << 32 | Integer.toUnsignedLong(b);
}

static int shardOf(long id, int shards) {
    long hash = mixed(id, 0xe933553e, 0xc5da07a8, 0xfdfd95ed) + 0x49a0f4dd15e5a8e3L;
    return (int) Long.remainderUnsigned(hash, shards);
}

static int citusShard(long id, int count) {
    long hash = (int) mixed(id, 0x9e735654, 0x9e735654, 0x9e735654);
    return (int) Math.min((hash + (1L << 31)) / ((1L << 32) / count), count - 1);
}

static int workerShard(long id, int shards) {
    return (int) (id >> 12 & 1023) % shards;
}
