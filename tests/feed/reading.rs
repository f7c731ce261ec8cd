//! What a read returns.

use super::fixture::{Fleet, insert, read, read_all};
use std::thread::scope;
use testbed::{Cluster, chilean, error, test, value};

#[test]
fn rows_of_all_servers_come_in_the_order_of_their_ids_each_once() {
    let fleet = Fleet::start(3);
    for round in 0..3 {
        for (nth, member) in fleet.members.iter().enumerate() {
            insert(member, &[&format!("{round}{nth}a"), &format!("{round}{nth}b")]);
        }
    }
    let mut client = fleet.reader.connect();
    assert_eq!(read_all(&mut client), "00a 00b 01a 01b 02a 02b 10a 10b 11a 11b 12a 12b 20a 20b 21a 21b 22a 22b");
    assert_eq!(read(&mut client, ""), "");
    insert(&fleet.members[1], &["more"]);
    assert_eq!(read(&mut client, ""), "more", "others are idle");
}

#[test]
fn positions_move_with_the_transaction_that_reads() {
    let fleet = Fleet::start(2);
    insert(&fleet.members[0], &["one"]);
    insert(&fleet.members[1], &["two"]);
    let mut client = fleet.reader.connect();
    client.batch_execute("BEGIN").expect("a transaction");
    assert_eq!(read(&mut client, ", 1"), "one");
    assert_eq!(read(&mut client, ", 1"), "two");
    client.batch_execute("ROLLBACK").expect("no transaction");
    assert_eq!(read(&mut client, ""), "one two");
}

#[test]
fn a_row_that_is_not_committed_holds_back_later_rows_of_other_servers() {
    let fleet = Fleet::start(2);
    let mut late = fleet.members[0].connect();
    late.batch_execute("BEGIN; INSERT INTO outbox (note) VALUES ('late')").expect("a row");
    insert(&fleet.members[1], &["after"]);
    let mut client = fleet.reader.connect();
    assert_eq!(read(&mut client, ""), "");
    late.batch_execute("COMMIT").expect("a row");
    assert_eq!(read(&mut client, ""), "late after");
}

#[test]
fn a_row_that_is_committed_while_its_server_looks_for_rows_comes_with_the_next_read() {
    let fleet = Fleet::start(1);
    let member = &fleet.members[0];
    insert(member, &["before"]);
    // What is read are the rows of a snapshot, as soon as nobody has the lock.
    let mut holder = member.connect();
    holder
        .batch_execute(
            "ALTER TABLE outbox RENAME TO kept;
             CREATE FUNCTION waits() RETURNS boolean LANGUAGE sql AS 'SELECT pg_advisory_xact_lock_shared(1); SELECT true';
             CREATE VIEW outbox AS SELECT * FROM kept WHERE waits(); SELECT pg_advisory_lock(1)",
        )
        .expect("a view");
    let first = scope(|scope| {
        let reading = scope.spawn(|| read(&mut fleet.reader.connect(), ""));
        member.wait_until("SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'advisory')");
        insert(member, &["meanwhile"]);
        holder.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
        reading.join().expect("rows")
    });
    assert_eq!(first, "before");
    assert_eq!(read(&mut fleet.reader.connect(), ""), "meanwhile");
}

#[test]
fn columns_are_matched_by_name_and_values_arrive_as_they_were_under_all_settings() {
    let fleet = Fleet::start(1);
    let member = &fleet.members[0];
    let columns =
        "at timestamptz, span interval, f8 float8, f4 float4, raw bytea, days daterange, texts text[], n numeric,
        doc json, kind regclass, \"odd \"\"name\" text";
    let values = "'2026-01-02 03:04:05.678901+05', '-1 day +2 hours -3.5 seconds', 0.1 + 0.2, 1e-7, '\\x00ff',
        '[2026-01-02,2026-01-05)', '[0:1]={\"a,\\\"b\",NULL}', 'NaN', '{\"b\":  1, \"a\": 1e400}', 'pg_catalog.pg_class', e'a\\\\b,\"c\\n'";
    member
        .connect()
        .batch_execute(&format!(
            "CREATE TABLE wide (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), {columns}, unknown_to_the_reader text);
             INSERT INTO wide VALUES (DEFAULT, {values}, 'x'); INSERT INTO wide DEFAULT VALUES;
             ALTER ROLE postgres SET datestyle = 'SQL, DMY'; ALTER ROLE postgres SET intervalstyle = 'sql_standard';
             ALTER ROLE postgres SET extra_float_digits = -5; ALTER ROLE postgres SET bytea_output = 'escape'"
        ))
        .expect("a table");
    let mut client = fleet.reader.connect();
    let reversed = columns.rsplit(", ").map(|column| column.trim()).collect::<Vec<_>>();
    // A dropped column of the reader's, too.
    client
        .batch_execute(&format!(
            "CREATE TABLE wide ({}, gone text, id bigint); ALTER TABLE wide DROP gone; SET datestyle = 'German';
             SET intervalstyle = 'iso_8601'; SELECT snowflake_feed.create('wide', 'public.wide');
             SELECT snowflake_feed.add_server('wide', 's0', '-infinity')",
            reversed.join(", ")
        ))
        .expect("a feed");
    client.batch_execute("CREATE TABLE got AS SELECT * FROM snowflake_feed.read(NULL::wide, 'wide')").expect("rows");
    assert_eq!(value(&mut client, "SELECT count(*) FROM got"), "2");
    let names = "at, span, f8, f4, raw, days, texts, n, doc::text, kind, \"odd \"\"name\"";
    let as_text = |from: &str| {
        format!(
            "SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET extra_float_digits = 3; SET bytea_output = 'hex';
             SELECT ROW({names})::text FROM {from} ORDER BY id LIMIT 1"
        )
    };
    let last = |client: &mut testbed::postgres::Client, from: &str| {
        let messages = client.simple_query(&as_text(from)).expect("a row");
        let rows = messages.iter().filter_map(|message| match message {
            testbed::postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        });
        rows.last().expect("a row")
    };
    assert_eq!(last(&mut client, "got"), last(&mut member.connect(), "wide"));
}

/// One that has sent all that it was asked for may have more rows, before the next ones of others.
#[test]
fn a_server_with_many_rows_is_read_to_their_end_before_later_rows_of_others() {
    let fleet = Fleet::start(4);
    let many = (10..40).map(|row| row.to_string()).collect::<Vec<_>>();
    insert(&fleet.members[0], &many.iter().map(String::as_str).collect::<Vec<_>>());
    fleet.members[1..].iter().for_each(|member| insert(member, &["later"]));
    let mut client = fleet.reader.connect();
    let mut all = String::new();
    while !all.ends_with("later later later") {
        let some = read(&mut client, ", 8");
        assert!((1..=8 + 3).contains(&some.split(' ').count()), "{some}");
        all += &format!(" {some}");
    }
    assert_eq!(all, format!(" {} later later later", many.join(" ")));
}

#[test]
fn rows_are_found_by_whatever_column_has_the_ids_and_those_with_one_id_come_together() {
    let fleet = Fleet::start(1);
    let table = "CREATE TABLE odd (note text, \"Order's ID\" bigint)";
    let mut member = fleet.members[0].connect();
    member.batch_execute(table).expect("a table");
    let mut client = fleet.reader.connect();
    client
        .batch_execute(&format!(
            "{table}; SELECT snowflake_feed.create('odd', 'public.odd', 'Order''s ID');
             SELECT snowflake_feed.add_server('odd', 's0')"
        ))
        .expect("a feed");
    let insert =
        "INSERT INTO odd SELECT note, id FROM (SELECT snowflake_nextval() OFFSET 0) AS i (id), unnest($1::text[]) note";
    for notes in [vec!["a", "b", "c"], vec!["d"]] {
        member.execute(insert, &[&notes]).expect("rows");
    }
    let read = "SELECT string_agg(note, ' ' ORDER BY note) FROM snowflake_feed.read(NULL::odd, 'odd', 1)";
    assert_eq!([value(&mut client, read), value(&mut client, read)], ["a b c", "d"]);
}

#[test]
fn money_of_a_server_that_writes_it_otherwise_keeps_its_value() {
    let locales = chilean();
    let member = Cluster::builder().worker(1).environment("LOCPATH", locales.path().to_str().expect("a path"));
    let fleet = Fleet::of([member]);
    let mut member = fleet.members[0].connect();
    let table = "CREATE TABLE sold (price money, id bigint DEFAULT snowflake_nextval());
                 ALTER ROLE postgres SET lc_monetary = 'es_CL'; INSERT INTO sold VALUES ('1.50')";
    member.batch_execute(table).expect("a table");
    assert_eq!(value(&mut fleet.members[0].connect(), "SELECT price FROM sold"), "$ 1,50");
    let mut client = fleet.reader.connect();
    client
        .batch_execute(
            "CREATE TABLE sold (price money, id bigint); SELECT snowflake_feed.create('sold', 'public.sold');
             SELECT snowflake_feed.add_server('sold', 's0', '-infinity')",
        )
        .expect("a feed");
    let read = "SELECT price::numeric FROM snowflake_feed.read(NULL::sold, 'sold')";
    assert_eq!(value(&mut client, read), "1.50");
}

#[test]
fn wrong_arguments_are_refused_in_words() {
    let fleet = Fleet::start(1);
    let mut client = fleet.reader.connect();
    value(&mut client, "SELECT snowflake_feed.create('other', 'public.outbox')::text");
    for (query, message) in [
        ("SELECT snowflake_feed.create('new', 'outbox')", "invalid name of a table: \"outbox\""),
        ("SELECT snowflake_feed.create('all', 'public.outbox')", "feed \"all\" already exists"),
        ("SELECT snowflake_feed.create(NULL, 'public.outbox')", "feed, source and column_name must not be null"),
        ("SELECT snowflake_feed.add_server('none', 's0')", "feed \"none\" does not exist"),
        ("SELECT snowflake_feed.add_server('all', 's0')", "feed \"all\" already has server \"s0\""),
        ("SELECT snowflake_feed.add_server('other', 's0', 'infinity')", "since is after the last time of the layout"),
        ("SELECT snowflake_feed.add_server('all', 'nowhere')", "server \"nowhere\" does not exist"),
        ("SELECT snowflake_feed.drop_server('all', 's1')", "feed \"all\" has no server \"s1\""),
        ("SELECT snowflake_feed.drop('none')", "feed \"none\" does not exist"),
        ("SELECT * FROM snowflake_feed.read(NULL::outbox, 'none')", "feed \"none\" does not exist"),
        ("SELECT * FROM snowflake_feed.read(NULL::outbox, 'all', 0)", "max_rows must be greater than 0"),
        ("SELECT snowflake_feed.read(7, 'all')", "integer is not the type of a row"),
    ] {
        assert_eq!(error(&mut client, query).message(), message, "{query}");
    }
}
