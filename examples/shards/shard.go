// Which shard has the row of an ID; docs/sharding.md says how to shard by it. shardOf() is the remainder of a hash
// partition, and PgDog's shard; citusShard() counts from 0 in the order of shardminvalue; workerShard() is the remainder
// of a partition by snowflake_flat_worker_ops. It needs math/bits.

func mixed(id int64, a, b, c uint32) (uint32, uint32) {
	a += uint32(id ^ id>>32 ^ id>>63)
	for _, turns := range []int{14, 11, 25, 16, 4, 14, 24} {
		a, b, c = b, (c^b)-bits.RotateLeft32(b, turns), a
	}
	return a, b
}

func shardOf(id int64, shards uint64) uint64 {
	high, low := mixed(id, 0xe933553e, 0xc5da07a8, 0xfdfd95ed)
	return (uint64(high)<<32 + uint64(low) + 0x49a0f4dd15e5a8e3) % shards
}

func citusShard(id int64, count uint64) uint64 {
	_, hash := mixed(id, 0x9e735654, 0x9e735654, 0x9e735654)
	shard := uint64(hash^1<<31) / (1 << 32 / count)
	if shard >= count {
		return count - 1
	}
	return shard
}

func workerShard(id int64, shards int64) int64 {
	return (id >> 12 & 1023) % shards
}
