"""Computes where the row of an ID is, as a router does."""

import os

# recipe
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
# end


with open(os.environ["SHARDS"]) as file:
    lines = [line for line in file if not line.startswith("#")]
for line in lines:
    id, modulus, shard, _, citus, worker = map(int, line.split("\t"))
    found = shard_of(id, modulus), citus_shard(id, modulus), worker_shard(id, modulus)
    assert found == (shard, citus, worker), f"{line}: {found}"
print(len(lines))
