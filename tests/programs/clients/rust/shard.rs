use std::{env, fs};

// recipe
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
// end

fn main() {
    let text = fs::read_to_string(env::var("SHARDS").expect("a path")).expect("a file");
    let mut lines = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let answer: Vec<i64> = line.split('\t').map(|field| field.parse().expect("a number")).collect();
        let [id, modulus, shard, _, citus, worker] = answer[..] else { panic!("{line}") };
        let found = (shard_of(id, modulus as u64), citus_shard(id, modulus as u64), worker_shard(id, modulus));
        assert_eq!(found, (shard as u64, citus as u64, worker), "{line}");
        lines += 1;
    }
    println!("{lines}");
}
