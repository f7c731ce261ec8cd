//! Servers with a table of one name, and a server without the library that reads it.

use std::time::Instant;
use testbed::postgres::Client;
use testbed::{Builder, Cluster, PATIENCE, need_extension, value};

/// The table of each server, and of the reader.
pub const OUTBOX: &str = "CREATE TABLE outbox (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), note text)";

pub struct Fleet {
    pub reader: Cluster,
    pub members: Vec<Cluster>,
}

impl Fleet {
    /// Servers with workers from 1 on, all in the feed `all`.
    pub fn start(members: u16) -> Self {
        let fleet = Self::of((1..=members).map(|worker| Cluster::builder().worker(worker)));
        for nth in 0..fleet.members.len() {
            fleet.add(nth);
        }
        fleet
    }

    /// Such servers, which are not in the feed yet. Their IDs are not ahead of their clocks, whose order is that of the
    /// rows.
    pub fn of(builders: impl IntoIterator<Item = Builder>) -> Self {
        need_extension("dblink");
        let members = builders.into_iter().map(start).collect();
        Self::read_by(Cluster::builder(), members)
    }

    /// Servers that a server like this reads, which are not in the feed yet.
    pub fn read_by(reader: Builder, members: Vec<Cluster>) -> Self {
        let reader = reader.set("shared_preload_libraries", "").start();
        reader
            .connect()
            .batch_execute(
                "CREATE EXTENSION dblink; CREATE EXTENSION snowflake_feed; CREATE TABLE outbox (note text, id bigint);
                 CREATE TABLE applied (nth serial, id bigint); SELECT snowflake_feed.create('all', 'public.outbox')",
            )
            .expect("a feed");
        let fleet = Self { reader, members };
        for (nth, member) in fleet.members.iter().enumerate() {
            fleet.name(nth, member);
        }
        fleet
    }

    /// Makes a foreign server for a server.
    pub fn name(&self, nth: usize, member: &Cluster) {
        let create = format!(
            "CREATE SERVER s{nth} FOREIGN DATA WRAPPER dblink_fdw
                 OPTIONS (host '{}', dbname 'postgres', connect_timeout '30', tcp_user_timeout '30000');
             CREATE USER MAPPING FOR postgres SERVER s{nth} OPTIONS (user 'postgres')",
            member.host().display()
        );
        self.reader.connect().batch_execute(&create).expect("a foreign server");
    }

    /// Adds a server to the feed.
    pub fn add(&self, nth: usize) {
        value(&mut self.reader.connect(), &format!("SELECT snowflake_feed.add_server('all', 's{nth}')::text"));
    }

    /// What a column of `servers` says of a server.
    pub fn shows(&self, nth: usize, column: &str) -> String {
        let of = format!("feed = 'all' AND server = 's{nth}'");
        let query = format!("SELECT coalesce(({column})::text, '') FROM snowflake_feed.servers WHERE {of}");
        value(&mut self.reader.connect(), &query)
    }
}

/// Starts a server with the table.
pub fn start(builder: Builder) -> Cluster {
    let member = builder.set("snowflake_pg.max_borrow", "10ms").start();
    member.connect().batch_execute(&format!("CREATE EXTENSION snowflake_pg; {OUTBOX}")).expect("a table");
    member
}

/// Inserts rows on a server.
pub fn insert(member: &Cluster, notes: &[&str]) {
    for note in notes {
        member.connect().execute("INSERT INTO outbox (note) VALUES ($1)", &[note]).expect("a row");
    }
}

/// One read of the feed: what the rows note.
pub fn read(client: &mut Client, arguments: &str) -> String {
    let query =
        format!("SELECT coalesce(string_agg(note, ' '), '') FROM snowflake_feed.read(NULL::outbox, 'all'{arguments})");
    value(client, &query)
}

/// Reads until there is nothing new.
pub fn read_all(client: &mut Client) -> String {
    let mut all = Vec::new();
    loop {
        let some = read(client, ", 3");
        if some.is_empty() {
            return all.join(" ");
        }
        all.push(some);
    }
}

/// Reads until these rows have come, since a server that is back is asked again only after a while.
pub fn wait_for_rows(client: &mut Client, notes: &str) {
    let deadline = Instant::now() + PATIENCE;
    let mut all = String::new();
    while all.len() < notes.len() {
        assert!(Instant::now() < deadline, "only {all}");
        let some = read(client, ", 3");
        if !all.is_empty() && !some.is_empty() {
            all.push(' ');
        }
        all.push_str(&some);
    }
    assert_eq!(all, notes);
}
