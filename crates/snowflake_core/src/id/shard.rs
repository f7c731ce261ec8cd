//! The hashes of an ID by which others distribute rows: a hash partition of PostgreSQL, and a shard of PgDog or Citus.
//!
//! Jenkins' lookup3, as `hash_bytes_uint32()` and `hash_bytes_uint32_extended()` of PostgreSQL's src/common/hashfn.c,
//! for the only seeds that matter here. docs/sharding.md has the same for other languages.

/// What PostgreSQL adds to the hash of a partition key of one column: `hash_combine64(0, hash)` of
/// src/include/common/hashfn.h.
pub const COMBINED: u64 = 0x49a0_f4dd_15e5_a8e3;

/// The state after `HASH_PARTITION_SEED` of src/include/catalog/partition.h.
const SEEDED: [u32; 3] = [0xe933_553e, 0xc5da_07a8, 0xfdfd_95ed];

/// The state without a seed.
const UNSEEDED: [u32; 3] = [0x9e37_79b9 + 4 + 3_923_095; 3];

/// An ID is in the hash partition whose remainder this number has, and on that shard of PgDog.
#[inline]
pub fn partition_hash(id: i64) -> u64 {
    let [b, c] = mixed(id, SEEDED);
    (u64::from(b) << 32 | u64::from(c)).wrapping_add(COMBINED)
}

/// `hashint8()`, of whose range each shard of Citus has a part.
#[inline]
pub fn citus_hash(id: i64) -> i32 {
    let [_, c] = mixed(id, UNSEEDED);
    c.cast_signed()
}

/// The last two words of the state.
#[inline]
fn mixed(id: i64, [mut a, mut b, mut c]: [u32; 3]) -> [u32; 2] {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an integer of 4 bytes has the same hash"
    )]
    let folded = (id ^ (id >> 32) ^ (id >> 63)) as u32;
    a = a.wrapping_add(folded);
    for turns in [14, 11, 25, 16, 4, 14, 24] {
        (a, b, c) = (b, (c ^ b).wrapping_sub(b.rotate_left(turns)), a);
    }
    [a, b]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A test asks a server for the same.
    #[test]
    fn hashes_and_remainders_are_the_known_answers() {
        let lines = include_str!("../../tests/shards.tsv").lines().filter(|line| !line.starts_with('#'));
        let mut count = 0;
        for line in lines {
            let answers: Vec<i64> = line.split('\t').map(|field| field.parse().expect("a number")).collect();
            let [id, modulus, remainder, hash, ..] = answers[..] else { panic!("{line}") };
            assert_eq!(partition_hash(id) % modulus.cast_unsigned(), remainder.cast_unsigned(), "{line}");
            assert_eq!(i64::from(citus_hash(id)), hash, "{line}");
            count += 1;
        }
        assert!(count > 150, "{count}");
    }
}
