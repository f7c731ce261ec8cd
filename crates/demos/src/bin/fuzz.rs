//! `make fuzz`: calls every function of the extension with random arguments, in databases of four encodings, as an
//! ordinary role and as a superuser. Every call must end with a result, or with an error that is not an internal one,
//! and no process may crash. Then it damages copies of the server's state file, which must be refused, or give the
//! newest record. Shows how many calls and files ended how.

use fastrand::Rng;
use snowflake_core::mark::state_file::{self, LENGTH, SLOT};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, value};

const ENCODINGS: [&str; 4] = ["UTF8", "LATIN1", "EUC_JP", "SQL_ASCII"];

/// What a layout, a text of an ID or an interval is made of, beside random characters.
const FRAGMENTS: [&str; 32] = [
    "t41",
    "d5",
    "w5",
    "s12",
    "t63",
    "t1",
    "s0",
    "w31",
    "t-1",
    "unit=",
    "1ms",
    "10ms",
    "0ms",
    "epoch=",
    "2024-01-01T00:00:00Z",
    "epoch=0",
    "twitter",
    "discord",
    "sonyflake",
    "flat",
    "base62",
    "base58",
    "crockford32",
    "hex",
    "1ptWyK4WgZU",
    "1ASD13XH1F800",
    "9223372036854775807",
    "18446744073709551615",
    " ",
    "  ",
    "",
    "é",
];

/// A function, and the types of its arguments.
struct Function {
    name: String,
    types: Vec<String>,
}

fn main() {
    let argument = |nth| std::env::args().nth(nth).and_then(|text: String| text.parse().ok());
    let (seconds, seed) = (argument(1).unwrap_or(60), argument(2).unwrap_or(1));
    let mut random = Rng::with_seed(seed);
    // A superuser may move the IDs ahead of the clock, for which calls would wait.
    let cluster = Cluster::builder().worker(7).set("statement_timeout", "5s").set("snowflake_pg.max_wait", 0).start();
    let mut admin = cluster.connect();
    admin.batch_execute("CREATE ROLE app LOGIN").expect("a role");
    let started = value(&mut admin, "SELECT pg_postmaster_start_time()");
    let mut total = 0;
    println!("{:<12} {:>10} {:>10} {:>8}   SQLSTATEs", "encoding", "calls", "results", "errors");
    for encoding in ENCODINGS {
        let database = encoding.to_lowercase();
        let create =
            format!("CREATE DATABASE {database} ENCODING {encoding} LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0");
        admin.batch_execute(&create).expect("a database");
        let connect = |user: &str| {
            let mut config = cluster.config();
            let mut client = config.dbname(&database).user(user).connect(NoTls).expect("a session");
            client.batch_execute("SET client_encoding = UTF8; SET client_min_messages = error").expect("settings");
            client
        };
        let mut superuser = connect("postgres");
        superuser
            .batch_execute(
                "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt;
                 CREATE TABLE plain (id bigint); CREATE TABLE parts (id bigint) PARTITION BY RANGE (id);
                 CREATE TABLE adopted (id serial PRIMARY KEY); GRANT SELECT ON ALL TABLES IN SCHEMA public TO app",
            )
            .expect("the extension");
        let functions = functions(&mut superuser);
        let mut app = connect("app");
        let (mut calls, mut results, mut errors) = (0_u64, 0_u64, BTreeMap::<String, u64>::new());
        let until = Instant::now() + Duration::from_secs(seconds) / 4;
        while Instant::now() < until {
            let function = random.choice(&functions).expect("functions");
            let call = call(function, &mut random);
            let client = if random.u8(..10) == 0 { &mut superuser } else { &mut app };
            calls += 1;
            match client.simple_query(&call) {
                Ok(_) => results += 1,
                Err(error) => {
                    let code = error.code().unwrap_or_else(|| panic!("{call}: {error:?}\n{}", cluster.log())).code();
                    assert!(!code.starts_with("XX"), "{call}: {error:?}");
                    *errors.entry(code.to_owned()).or_default() += 1;
                }
            }
        }
        let all: u64 = errors.values().sum();
        let list: Vec<_> = errors.iter().map(|(code, count)| format!("{code} {count}")).collect();
        println!("{encoding:<12} {calls:>10} {results:>10} {all:>8}   {}", list.join(", "));
        total += calls;
    }
    assert_eq!(value(&mut admin, "SELECT pg_postmaster_start_time()"), started);
    let log = cluster.log();
    for sign in ["was terminated by signal", "panicked", "PANIC", "all server processes terminated"] {
        assert!(!log.contains(sign), "{sign}:\n{log}");
    }
    println!("{total} calls with seed {seed}: no internal error, no crash");
    let file = fs::read(cluster.mark_file()).expect("a state file");
    println!("{}", damage_state_files(&file, &mut random));
}

/// Reads damaged copies of a state file, and says how many were refused. A copy may give the record before the newest
/// only if the newest looks as if its write had been cut off: the revision at its end is damaged, too.
fn damage_state_files(file: &[u8], random: &mut Rng) -> String {
    const FILES: u32 = 400_000;
    let newest = state_file::decode(file).expect("a record");
    let slot = state_file::offset(newest.revision);
    let end = slot + SLOT - 8..slot + SLOT;
    let (mut refused, mut read, mut older, mut resealed) = (0, 0, 0, 0);
    for _ in 0..FILES {
        let mut bytes = file.to_vec();
        let kind = random.u8(..5);
        // In one of the slots; the rest of the file is empty.
        let at = random.usize(..2) * LENGTH / 2 + random.usize(..SLOT);
        match kind {
            0 => bytes.truncate(random.usize(..LENGTH)),
            1 => bytes.resize(LENGTH + random.usize(1..LENGTH), random.u8(..)),
            2 => bytes[at] ^= 1 << random.u8(..8),
            _ => {
                let until = (at + random.usize(1..=SLOT)).min(LENGTH);
                random.fill(&mut bytes[at..until]);
            }
        }
        if kind == 4 {
            // Nothing tells that from a record, but reading it must not crash.
            let (body, rest) = bytes[slot..].split_at_mut(SLOT - 12);
            rest[..4].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        }
        match state_file::decode(&bytes) {
            Err(_) => refused += 1,
            Ok(record) if record == newest => read += 1,
            Ok(_) if kind == 4 => resealed += 1,
            Ok(record) if bytes[end.clone()] != file[end.clone()] => {
                assert_eq!(record.revision, newest.revision - 1);
                older += 1;
            }
            Ok(record) => panic!("{record:?} for {newest:?} in {bytes:?}"),
        }
    }
    format!(
        "{FILES} damaged state files: {refused} refused; the newest record in {read}, the one before in {older} whose last \
         write looks cut off, another in {resealed} with a checksum that fits"
    )
}

/// The functions that SQL can call, without those that connect to other servers.
fn functions(client: &mut Client) -> Vec<Function> {
    let query = "SELECT format('%s.%s', pronamespace::regnamespace, proname), p.proargtypes::regtype[]::text[]
        FROM pg_depend d JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass
        WHERE deptype = 'e' AND refobjid IN (SELECT oid FROM pg_extension WHERE extname LIKE 'snowflake%')
          AND prokind = 'f' AND proname NOT IN ('snowflake_check_fleet') AND prorettype <> 'trigger'::regtype
          AND NOT EXISTS (SELECT FROM unnest(proargtypes) t WHERE t IN ('internal'::regtype, 'cstring'::regtype))";
    let rows = client.query(query, &[]).expect("functions");
    rows.iter().map(|row| Function { name: row.get(0), types: row.get(1) }).collect()
}

fn call(function: &Function, random: &mut Rng) -> String {
    let mut call = format!("SELECT {}(", function.name);
    for (nth, of_type) in function.types.iter().enumerate() {
        let comma = if nth > 0 { ", " } else { "" };
        let of_type = match of_type.as_str() {
            "anyelement" => random.choice(["plain", "parts", "adopted", "pg_class", "integer"]).expect("a type"),
            of_type => of_type,
        };
        write!(call, "{comma}{}::{of_type}", argument(of_type, random)).expect("text");
    }
    // All rows of a large batch would be sent.
    call + ") LIMIT 10"
}

/// A value of this type, or nearly so: most of them mean something.
fn argument(of_type: &str, random: &mut Rng) -> String {
    if random.u8(..30) == 0 {
        return "NULL".to_owned();
    }
    match of_type {
        "bigint" | "snowflake" => {
            // As many small numbers as large ones.
            let bits = random.u32(..64);
            format!("'{}'", random.i64(..) >> bits)
        }
        "integer" => format!("'{}'", if random.bool() { random.i32(..) } else { random.i32(-3..5000) }),
        "smallint" => format!("'{}'", random.i16(..)),
        "boolean" => random.bool().to_string(),
        "timestamp with time zone" => match random.u8(..6) {
            0 => "'infinity'".to_owned(),
            1 => "'-infinity'".to_owned(),
            2 => "'4713-01-01 BC'".to_owned(),
            _ => format!("(timestamptz 'epoch' + interval '{} s')", random.i64(-100_000_000_000..9_000_000_000_000)),
        },
        "interval" => match random.u8(..4) {
            0 => format!("'{} months {} days'", random.i32(-100..100), random.i32(-3..3)),
            1 => format!("'{} us'", random.i64(..1 << 60)),
            _ => format!("'{} s'", random.i32(-5..100_000_000)),
        },
        "bytea" => {
            let length = [16, 24, 32, random.usize(..40)][random.usize(..4)];
            format!("'\\x{}'", "a7".repeat(length))
        }
        "plain" | "parts" | "adopted" | "pg_class" => "NULL".to_owned(),
        "uuid" => format!("'{:032x}'", random.u128(..)),
        "regclass" => {
            let names =
                ["plain", "parts", "adopted", "pg_class", "snowflake_status", "0", "4294967295", "adopted_id_seq"];
            format!("'{}'", random.choice(names).expect("a name"))
        }
        _ => quoted(&text(random)),
    }
}

fn text(random: &mut Rng) -> String {
    let mut text = String::new();
    for _ in 0..random.usize(..8) {
        if random.u8(..3) > 0 {
            text.push_str(random.choice(FRAGMENTS).expect("a fragment"));
        } else {
            // Of those that LATIN1 has; EUC_JP refuses some, which is an error like any other.
            let sign = char::from(random.u8(1..));
            (0..1 << random.u8(..12)).step_by(7).for_each(|_| text.push(sign));
        }
    }
    text
}

fn quoted(text: &str) -> String {
    format!("E'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
