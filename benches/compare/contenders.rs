//! What is measured beside each other.

use crate::settings::Setting;
use testbed::postgres::Client;

/// Something that gives a row its key, or that is compared with it.
#[derive(Clone, Debug)]
pub struct Contender {
    /// As it is shown.
    pub name: &'static str,
    /// Where it runs.
    pub setting: Setting,
    /// Gives one ID in SQL.
    pub expression: &'static str,
    /// The type of the IDs.
    pub key: &'static str,
}

/// The extension with the configuration that users have who choose none.
pub const OURS: Contender = ours("snowflake_nextval()", Setting::Default);
/// A layout whose ticks can't be used up.
pub const WIDE: Contender = ours("snowflake_nextval(), t41 w2 s20", Setting::Wide);
/// Full ticks are borrowed from the future.
pub const BORROW: Contender = ours("snowflake_nextval(), exhaustion borrow", Setting::Borrow);
/// Ticks of 10 ms have to be divided out.
pub const COARSE: Contender = ours("snowflake_nextval(), ticks of 10 ms", Setting::Coarse);
/// Closed ticks are entered in a history.
pub const HISTORY: Contender = ours("snowflake_nextval(), regression history", Setting::History);
/// Every ID reads the clock.
pub const CLOCKED: Contender = ours("snowflake_nextval(), counter off", Setting::Clocked);
/// A registry leases the worker.
pub const LEASED: Contender = ours("snowflake_nextval(), worker leased", Setting::Leased);
/// There is no horizon.
pub const UNTRACKED: Contender = ours("snowflake_nextval(), writers untracked", Setting::Untracked);
/// The functions in plain SQL, on a server without the extension.
pub const HOSTED: Contender = ours("snowflake_nextval(), plain SQL", Setting::Hosted);

/// PostgreSQL's reading of the clock: what an ID can't cost less than.
pub const CLOCK: Contender = other("clock_timestamp()", "clock_timestamp()", "timestamptz");
/// A sequence as it is made by default.
pub const SEQUENCE: Contender = other("nextval(), CACHE 1", "nextval('plain')", "bigint");
/// Sequences of which each session takes some at once.
pub const SEQUENCE_32: Contender = other("nextval(), CACHE 32", "nextval('cached_32')", "bigint");
pub const SEQUENCE_1000: Contender = other("nextval(), CACHE 1000", "nextval('cached_1000')", "bigint");
pub const UUID_4: Contender = other("gen_random_uuid()", "gen_random_uuid()", "uuid");
/// Instagram's, as in most tutorials.
pub const PLPGSQL: Contender = other("PL/pgSQL, Instagram's", "insta_next_id()", "bigint");
/// The usual generator in Rust, under a lock.
pub const NAIVE: Contender = other("pgrx under an LWLock", "naive_nextval()", "bigint");

const CALLS_IN_ROW: usize = 25;

/// A statement that makes so many calls, a multiple of 25. Each row makes 25, so that rows are the smaller part of what
/// it takes. PostgreSQL may not leave out columns that are volatile.
pub fn calls(expression: &str, count: u32) -> String {
    let columns = vec![expression; CALLS_IN_ROW].join(", ");
    let rows = count / u32::try_from(CALLS_IN_ROW).unwrap_or(1);
    format!("SELECT count(*) FROM (SELECT {columns} FROM generate_series(1, {rows}) i OFFSET 0) calls")
}

const fn ours(name: &'static str, setting: Setting) -> Contender {
    Contender { name, setting, expression: "snowflake_nextval()", key: "bigint" }
}

const fn other(name: &'static str, expression: &'static str, key: &'static str) -> Contender {
    Contender { name, setting: Setting::Default, expression, key }
}

/// Contenders that not every server has.
struct Peer {
    contender: Contender,
    /// What tells whether the server has it.
    there: &'static str,
    /// What makes it ready.
    setup: &'static str,
}

const PEERS: [Peer; 3] = [
    Peer {
        contender: other("uuidv7()", "uuidv7()", "uuid"),
        there: "SELECT 1 FROM pg_proc WHERE proname = 'uuidv7' AND pronamespace = 'pg_catalog'::regnamespace",
        setup: "",
    },
    Peer {
        contender: other("pg_uuidv7", "uuid_generate_v7()", "uuid"),
        there: "SELECT 1 FROM pg_available_extensions WHERE name = 'pg_uuidv7'",
        setup: "CREATE EXTENSION pg_uuidv7",
    },
    Peer {
        contender: other("pgEdge snowflake.nextval()", "snowflake.nextval('peer')", "bigint"),
        there: "SELECT 1 FROM pg_available_extensions WHERE name = 'snowflake' AND default_version >= '2'",
        setup: "CREATE EXTENSION snowflake; CREATE SEQUENCE peer; ALTER SYSTEM SET snowflake.node = 1;
                SELECT pg_reload_conf()",
    },
];

/// Makes everything on the default server that contenders need. To be called once.
pub fn set_up(client: &mut Client) -> Vec<Contender> {
    client
        .batch_execute(
            "CREATE SEQUENCE plain; CREATE SEQUENCE cached_32 CACHE 32; CREATE SEQUENCE cached_1000 CACHE 1000;
             SELECT snowflake_create_operator_class('by_sequence', 'sequence', 'public', 'flat');
             CREATE SEQUENCE insta_sequence;
             CREATE FUNCTION insta_next_id(OUT result bigint) LANGUAGE plpgsql AS $$
             DECLARE
                 our_epoch bigint := 1314220021721;
                 seq_id bigint;
                 now_millis bigint;
                 shard_id int := 5;
             BEGIN
                 SELECT nextval('insta_sequence') % 1024 INTO seq_id;
                 SELECT floor(extract(epoch FROM clock_timestamp()) * 1000) INTO now_millis;
                 result := (now_millis - our_epoch) << 23;
                 result := result | (shard_id << 10);
                 result := result | (seq_id);
             END $$",
        )
        .expect("contenders");
    let there = |peer: &Peer, client: &mut Client| !client.query(peer.there, &[]).expect("the catalog").is_empty();
    let mut peers = Vec::new();
    for peer in PEERS {
        if there(&peer, client) {
            for statement in peer.setup.split(';') {
                client.batch_execute(statement).expect("a peer");
            }
            peers.push(peer.contender);
        } else {
            println!("    {} is not installed, and left out", peer.contender.name);
        }
    }
    peers
}

/// Everything that issues something, ours first; `peers` are the contenders that not every server has.
pub fn all(peers: &[Contender]) -> Vec<Contender> {
    let mut all = vec![OURS, WIDE, BORROW, COARSE, HISTORY, CLOCKED, LEASED, UNTRACKED, CLOCK, SEQUENCE, SEQUENCE_32];
    all.extend([SEQUENCE_1000, UUID_4]);
    all.extend_from_slice(peers);
    all.extend([NAIVE, HOSTED, PLPGSQL]);
    all
}
