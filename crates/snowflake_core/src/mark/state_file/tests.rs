//! Tests of the state file's bytes.

use super::*;
use proptest::prelude::*;
use std::ops::RangeInclusive;

fn record(revision: u64) -> Record {
    Record {
        revision,
        life: 0x3132_3334_3536_3738,
        previous_life: 0x4142_4344_4546_4748,
        mark: 1_700_000_000_123 + revision,
        logged: 0x5152_5354_5556_5758,
        identity: Identity {
            system_identifier: 0x0102_0304_0506_0708,
            timeline: 3,
            directory: Inode { number: 0x1112_1314, born_ns: 0x2122_2324_2526_2728 },
            worker: 5,
            layout: "flat".parse().expect("a layout"),
        },
        machine: Some(Machine { boot: 0x6162_6364_6566_6768, generation: 0x7172_7374_7576_7778 }),
        others: OtherMarks::new([(7, 1_600_000_000_000)], 1_500_000_000_000),
        later: LaterFields::default(),
    }
}

/// A new file with the first of these records, to which the others were written.
fn written(revisions: RangeInclusive<u64>) -> Vec<u8> {
    let mut bytes = encode(&record(*revisions.start()));
    for revision in revisions {
        let at = offset(revision);
        bytes[at..at + SLOT].copy_from_slice(&encode_slot(&record(revision)));
    }
    bytes
}

#[test]
fn a_record_is_read_back_as_it_was_written() {
    assert_eq!(decode(&encode(&record(1))), Ok(record(1)));
    assert_eq!(decode(&encode(&record(2))), Ok(record(2)));
    let end = record(1).identity.layout.end();
    for mark in [0, 1, end] {
        let record = Record { mark, ..record(1) };
        assert_eq!(decode(&encode(&record)), Ok(record));
    }
    let record_without = Record { machine: None, ..record(1) };
    assert_eq!(decode(&encode(&record_without)), Ok(record_without));
    let many = (0..OTHER_WORKERS as u64).map(|worker| (worker, worker));
    let record = Record { others: OtherMarks::new(many, 0), later: LaterFields([7; LaterFields::LENGTH]), ..record(1) };
    assert_eq!(decode(&encode(&record)), Ok(record));
}

#[test]
fn the_greatest_revision_counts_and_not_the_highest_mark() {
    assert_eq!(decode(&written(1..=2)), Ok(record(2)));
    assert_eq!(decode(&written(1..=3)), Ok(record(3)));
    let lowered = Record { mark: 1, ..record(2) };
    let mut bytes = written(1..=1);
    bytes[..SLOT].copy_from_slice(&encode_slot(&lowered));
    assert_eq!(decode(&bytes), Ok(lowered));
}

#[test]
fn a_mark_after_the_end_of_its_layout_is_noticed() {
    let end = record(1).identity.layout.end();
    for mark in [end + 1, u64::MAX] {
        assert_eq!(decode(&encode(&Record { mark, ..record(1) })), Err(Damage::Mark { mark, end }));
    }
}

#[test]
fn a_flipped_bit_never_brings_an_older_record_back() {
    for revisions in [1..=2, 1..=3, 1..=1] {
        let good = written(revisions);
        let newest = decode(&good).expect("a record");
        for bit in 0..LENGTH * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            if let Ok(read) = decode(&bytes) {
                assert_eq!(read, newest, "bit {bit}");
            }
        }
    }
}

#[test]
fn a_flipped_bit_of_the_newest_record_is_noticed() {
    let good = written(1..=2);
    for bit in 0..END_REVISION * 8 {
        let mut bytes = good.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&bytes).is_err(), "bit {bit}");
    }
}

/// As after a repair of the file system.
#[test]
fn a_slot_without_a_byte_never_brings_the_other_one_back() {
    for revisions in [1..=1, 1..=2, 1..=3, 7..=8] {
        let good = written(revisions);
        for slot in [0, 4096] {
            for end in [SLOT, 4096] {
                let mut bytes = good.clone();
                bytes[slot..slot + end].fill(0);
                assert_eq!(decode(&bytes), Err(Unreadable::Magic.into()));
            }
        }
    }
}

#[test]
fn every_other_length_is_noticed() {
    let good = written(1..=2);
    for length in (0..LENGTH).step_by(7) {
        assert_eq!(decode(&good[..length]), Err(Damage::Length(length)));
    }
    assert_eq!(decode(&[&good[..], b"\n"].concat()), Err(Damage::Length(LENGTH + 1)));
}

#[test]
fn a_file_of_another_kind_is_noticed() {
    assert_eq!(decode(b"not a state file"), Err(Unreadable::Magic.into()));
    assert_eq!(decode(&[0; LENGTH]), Err(Unreadable::Magic.into()));
    assert_eq!(decode(&[b'x'; LENGTH]), Err(Unreadable::Magic.into()));
}

/// A slot as a later library could write it, in which all before the checksum is its own.
fn newer_slot(length: usize, newer: Newer) -> Vec<u8> {
    let mut slot = vec![7; length];
    Format { readable_by: newer.readable_by, ..FORMAT }.seal(&mut slot);
    slot
}

#[test]
fn a_later_library_is_told_whatever_else_is_in_the_file() {
    let newer = Newer { written_by: Release::THIS, readable_by: Release { major: 9, minor: 1 } };
    let told = Err(Unreadable::Newer(newer).into());
    for length in [28, 160, END_REVISION, 2000, 4096] {
        let slot = newer_slot(length, newer);
        for [at, end] in [[0, 4096], [0, LENGTH], [4096, LENGTH], [4096, LENGTH + 1]] {
            let mut bytes = written(1..=2);
            bytes.resize(end, 0);
            bytes[at..at + length].copy_from_slice(&slot);
            assert_eq!(decode(&bytes), told, "{length} bytes at {at}");
            bytes[at + 17] ^= 1;
            assert_ne!(decode(&bytes), told, "damaged");
        }
    }
}

/// The bytes of a file when the machine stops after the first `cut` bytes of a slot were written.
fn cut_off(file: &[u8], new: &Record, cut: usize) -> Vec<u8> {
    let (mut bytes, at) = (file.to_vec(), offset(new.revision));
    bytes[at..at + cut].copy_from_slice(&encode_slot(new)[..cut]);
    bytes
}

#[test]
fn a_write_that_is_cut_off_at_any_byte_leaves_the_record_before_or_the_new_one() {
    for revision in [1_u64, 2, 3, 254, 255, 256, 257, 65_535, 65_536, (1 << 32) - 1, 1 << 32, (1 << 32) + 1] {
        let file = written(revision.saturating_sub(1).max(1)..=revision);
        let new = record(revision + 1);
        for cut in 0..=SLOT {
            let read = decode(&cut_off(&file, &new, cut)).expect("a record");
            assert!(read == record(revision) || read == new, "cut {cut} of revision {}", new.revision);
        }
        assert_eq!(decode(&cut_off(&file, &new, SLOT)), Ok(new));
    }
}

proptest! {
    /// Any number of writes, the last of which is cut off, then more of them, and so on.
    #[test]
    fn the_record_never_goes_back_however_often_writes_are_cut_off(
        lives in prop::collection::vec((1_u64..6, 0_usize..=SLOT, any::<u64>()), 1..20),
    ) {
        let mut bytes = written(1..=1);
        let mut last = record(1);
        for (writes, cut, life) in lives {
            for write in 0..writes {
                let new = Record { life, mark: last.mark + 1, ..record(last.revision + 1) };
                let torn = write + 1 == writes;
                bytes = cut_off(&bytes, &new, if torn { cut } else { SLOT });
                let read = decode(&bytes);
                prop_assert!(read == Ok(last) && torn || read == Ok(new), "{read:?}");
                last = read.expect("a record");
            }
        }
    }
}
