//! Bytes that were written by version 1 of each [format](snowflake_core::formats). They stay readable for ever: a later
//! version gets files of its own, beside these.

#![cfg(not(loom))]

use snowflake_core::formats::{Newer, Release, Unreadable, sign};
use snowflake_core::id::layout::Layout;
use snowflake_core::mark::life::{self, LastLife, Life};
use snowflake_core::mark::lives::{self, End, LifeSpan};
use snowflake_core::mark::record::{LaterFields, OtherMarks, Record};
use snowflake_core::mark::state_file::{self, Damage};
use snowflake_core::mark::trace::{Entry, Event, file};
use snowflake_core::mark::wal_page::{PageHorizon, WalPage};
use snowflake_core::server::identity::{Identity, Inode};
use snowflake_core::server::lease::{self, Lease, Location};
use snowflake_core::server::vmclock::Machine;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

const FILE: Inode = Inode { number: 0x1112_1314, born_ns: 0x2122_2324_2526_2728 };
const DIRECTORY: Inode = Inode { number: 0x3132_3334, born_ns: 0x4142_4344_4546_4748 };

fn layout() -> Layout {
    "flat".parse().expect("a layout")
}

fn record() -> Record {
    Record {
        revision: 2,
        life: 0x5152_5354_5556_5758,
        previous_life: 0x6162_6364_6566_6768,
        mark: 1_700_000_000_123,
        logged: 1_700_000_000_100,
        identity: Identity {
            system_identifier: 0x0102_0304_0506_0708,
            timeline: 3,
            directory: DIRECTORY,
            worker: 5,
            layout: layout(),
        },
        machine: Some(Machine { boot: 0x7172_7374_7576_7778, generation: 9 }),
        others: OtherMarks::new([(7, 1_600_000_000_000), (8, 1_600_000_000_001)], 1_500_000_000_000),
        later: LaterFields::default(),
    }
}

fn last_life() -> LastLife {
    let life = Life { number: record().life, revision: 1, worker: 5, wal_mark: 1_700_000_000_100 };
    LastLife { life, elsewhere: false }
}

fn lease() -> Lease {
    Lease {
        worker: 5,
        tokens: [0x0102_0304, 0x0506_0708],
        begins: 1_600_000_000_000,
        granted_until: 1_700_000_000_000,
        receipt: std::array::from_fn(|i| u8::try_from(i + 1).expect("a small number")),
        revision: 6,
        location: Location { boot: 0x090A_0B0C, device: 64, directory: DIRECTORY.number },
    }
}

fn page() -> WalPage {
    let mut page = WalPage::default();
    // One worker that no longer has room, one with a mark, and one without.
    page.raise(3, 1_500_000_000_000, layout(), 1000);
    page.raise(5, 1_700_000_000_100, layout(), 208);
    page.disown(6, layout(), 1000);
    page.horizon = PageHorizon::Below(0x0123_4567_89AB_CDEF);
    page
}

fn events() -> [Entry; 2] {
    let begins = Event::Begins { now: 1, timeline: 3, system_identifier: 4, directory: 5, worker: 5, layout: 6 };
    [(1, begins), (4097 + 1, Event::Used { mark: 1_700_000_000_123 })].map(|(number, event)| Entry {
        number,
        at: 1_700_000_000_000,
        event,
    })
}

fn span() -> LifeSpan {
    LifeSpan {
        nth: 1,
        number: record().life,
        server: 0x0A0B_0C0D,
        system_identifier: record().identity.system_identifier,
        timeline: 3,
        worker: 5,
        layout: layout(),
        began_at: 11,
        decision: 12,
        first: 13,
        issued: 14,
        mark: 15,
        found: 16,
        logged: 17,
        end: End::Stop,
        ended_at: 18,
        follows: 19,
        jumped_at: 20,
    }
}

/// The trace, with two events and a life.
fn trace() -> Vec<u8> {
    let mut bytes = vec![0; lives::FILE_LENGTH];
    bytes[..file::HEADER].copy_from_slice(&file::header(span().server, FILE));
    let mut put = |at: u64, value: &[u8]| {
        let at = usize::try_from(at).expect("within the file");
        bytes[at..at + value.len()].copy_from_slice(value);
    };
    events().iter().for_each(|entry| put(file::offset(entry.number), &entry.encode()));
    put(lives::offset(1), &span().encode());
    bytes
}

/// A golden file: lines of a place and 16 bytes from there on, as `xxd` writes them, and where it ends. All other bytes
/// are 0.
fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/version_1").join(name);
    let text = fs::read_to_string(path).expect("a golden file");
    let mut bytes = Vec::new();
    for line in text.lines() {
        let (at, digits) = line.split_once(':').expect("a place");
        bytes.resize(usize::from_str_radix(at, 16).expect("a place"), 0);
        let digits: Vec<_> = digits.bytes().filter(|byte| *byte != b' ').collect();
        let (pairs, _) = digits.as_chunks::<2>();
        let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("digits"), 16).expect("digits");
        bytes.extend(pairs.iter().map(|pair| byte(pair)));
    }
    bytes
}

/// These bytes as if a library of this version had written the headers at these places.
fn by_this_library(mut bytes: Vec<u8>, headers: &[usize]) -> Vec<u8> {
    for &header in headers {
        sign(&mut bytes[header..], Release::THIS, Release::FIRST);
    }
    bytes
}

const SLOTS: &[usize] = &[0, 4096];

/// All that version 1 has, as this library writes it, and where the headers are.
fn written() -> BTreeMap<&'static str, (Vec<u8>, &'static [usize])> {
    BTreeMap::from([
        ("mark", (state_file::encode(&record()), SLOTS)),
        ("life", (life::encode(last_life().life, FILE, DIRECTORY), &[0][..])),
        ("lease", (lease::encode(&lease(), FILE), &[0])),
        ("page", (page().encode(), &[0])),
        ("trace", (trace(), &[0])),
    ])
}

#[test]
fn every_format_is_written_as_version_1_was() {
    for (name, (bytes, headers)) in written() {
        let first = golden(name);
        assert!(headers.iter().all(|&at| first[at + 8..at + 20] == [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]), "{name}");
        assert_eq!(
            by_this_library(first, headers),
            bytes,
            "{name} is not written as version 1 of its format: add fields behind the last one, raise the version, \
             keep its bytes in version_2 beside these, and set readable_by if older libraries must refuse it, as \
             src/formats.rs says"
        );
    }
}

#[test]
fn a_state_file_of_version_1_is_read() {
    assert_eq!(state_file::decode(&golden("mark")), Ok(record()));
}

#[test]
fn a_life_of_version_1_is_read() {
    assert_eq!(life::decode(&golden("life"), FILE, DIRECTORY), Ok(Some(last_life())));
}

#[test]
fn a_lease_of_version_1_is_read() {
    assert_eq!(lease::decode(&golden("lease"), FILE), Ok(Some(lease())));
}

#[test]
fn a_page_of_version_1_is_read() {
    assert_eq!(WalPage::decode(&golden("page")), Ok(Some(page())));
}

#[test]
fn a_trace_of_version_1_is_read() {
    let bytes = golden("trace");
    assert_eq!(file::read_header(&bytes), Ok((span().server, FILE)));
    assert_eq!((file::entries(&bytes), lives::read(&bytes[lives::BEGIN..])), (events().to_vec(), vec![span()]));
}

/// What each reader says of bytes.
fn read(name: &str, bytes: &[u8]) -> Result<bool, Newer> {
    match name {
        "mark" => match state_file::decode(bytes) {
            Err(Damage::Unreadable(Unreadable::Newer(newer))) => Err(newer),
            read => Ok(read.is_ok()),
        },
        "life" => life::decode(bytes, FILE, DIRECTORY).map(|life| life.is_some()),
        "lease" => lease::decode(bytes, FILE).map(|lease| lease.is_some()),
        "page" => WalPage::decode(bytes).map(|page| page.is_some()),
        "trace" => match file::read_header(bytes) {
            Err(Unreadable::Newer(newer)) => Err(newer),
            read => Ok(read.is_ok()),
        },
        _ => panic!("{name}"),
    }
}

#[test]
fn what_a_later_library_has_written_is_read_if_it_names_this_one_and_refused_in_words_if_not() {
    let next = Release { minor: Release::THIS.minor + 1, ..Release::THIS };
    let later = Release { major: next.major + 1, minor: 0 };
    for (name, (mut bytes, headers)) in written() {
        let mut reads = |written_by, readable_by| {
            headers.iter().for_each(|&at| sign(&mut bytes[at..], written_by, readable_by));
            read(name, &bytes)
        };
        assert_eq!(reads(later, Release::FIRST), Ok(true), "{name}");
        assert_eq!(reads(later, Release::THIS), Ok(true), "{name}");
        for readable_by in [next, later] {
            let newer = reads(later, readable_by).expect_err(name);
            assert_eq!(newer, Newer { written_by: later, readable_by });
        }
        let newer = reads(later, next).expect_err(name).to_string();
        assert_eq!(newer, format!("written by snowflake_pg {later}, which only {next} and later can read"));
        // Damaged, it is not a later one.
        headers.iter().for_each(|&at| bytes[at + 18] ^= 2);
        assert_eq!(read(name, &bytes), Ok(false), "{name}");
    }
}

/// As a later library could have written them, which leaves what was there where it was.
#[test]
fn fields_that_follow_are_ignored() {
    for (name, length) in [("life", 88), ("lease", 168), ("page", golden("page").len() - 4)] {
        for more in [1, 8, 500] {
            let mut bytes = golden(name);
            bytes.truncate(length);
            bytes.resize(length + more + 4, 7);
            bytes[8] = 2;
            bytes[20..24].copy_from_slice(&u32::try_from(length + more).expect("small").to_le_bytes());
            sign(&mut bytes, Release { major: 9, minor: 9 }, Release::FIRST);
            assert_eq!(read(name, &bytes), Ok(true), "{name}");
            // Nor does it matter what is in a file behind that.
            bytes.push(1);
            assert_eq!(read(name, &bytes), Ok(true), "{name}");
        }
    }
    for (name, free) in [("mark", 360), ("trace", 48)] {
        let (mut bytes, headers) = written().remove(name).expect("a format");
        for &at in headers {
            bytes[at + free] = 7;
            bytes[at + 8] = 2;
            sign(&mut bytes[at..], Release { major: 9, minor: 9 }, Release::FIRST);
        }
        assert_eq!(read(name, &bytes), Ok(true), "{name}");
    }
}

#[test]
fn an_older_library_keeps_what_a_later_one_has_written_in_the_state_file_and_on_the_page() {
    let mut later = LaterFields::default();
    later.0[5] = 7;
    let bytes = state_file::encode(&Record { later, ..record() });
    assert_eq!(state_file::decode(&bytes).map(|record| record.later), Ok(later));

    let mut bytes = page().encode();
    let length = bytes.len() - 4;
    bytes.truncate(length);
    bytes.extend(b"horizon!");
    bytes.extend([0; 4]);
    bytes[20..24].copy_from_slice(&u32::try_from(length + 8).expect("small").to_le_bytes());
    sign(&mut bytes, Release { major: 9, minor: 9 }, Release::FIRST);
    let mut page = WalPage::decode(&bytes).expect("named").expect("whole");
    page.raise(5, 1_800_000_000_000, layout(), 8000);
    page.raise(77, 1_800_000_000_000, layout(), 8000);
    let bytes = page.encode();
    assert!(bytes[..bytes.len() - 4].ends_with(b"horizon!"));
}
