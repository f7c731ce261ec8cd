//! The commands of docs/reading.md.

use super::fixture::start;
use std::fs;
use testbed::{Cluster, need_extension, project, test, value};

#[test]
fn the_commands_for_several_servers_in_the_document_read_a_feed() {
    need_extension("dblink");
    let text = fs::read_to_string(project().join("docs/reading.md")).expect("a document");
    let (_, section) = text.split_once("\n## Several servers\n").expect("a section");
    let (section, _) = section.split_once("\n## ").expect("another section");
    let blocks: Vec<_> =
        section.split("```postgresql\n").skip(1).filter_map(|rest| Some(rest.split_once("```")?.0)).collect();
    let shard = start(Cluster::builder().worker(1));
    shard
        .connect()
        .batch_execute(
            "CREATE ROLE reader LOGIN; CREATE SCHEMA shop; GRANT USAGE ON SCHEMA shop TO reader;
             CREATE TABLE shop.outbox (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), topic text, body jsonb);
             GRANT SELECT ON shop.outbox TO reader",
        )
        .expect("a table");
    let reader = Cluster::builder().set("shared_preload_libraries", "").start();
    let mut client = reader.connect();
    let foreign = blocks[0]
        .replace("shard-1a,shard-1b", &shard.host().display().to_string())
        .replace("dbname 'shop'", "dbname 'postgres'");
    client.batch_execute(&foreign).unwrap_or_else(|error| panic!("{error:?}"));
    let commands: Vec<_> = blocks[1].split_inclusive(";\n").collect();
    assert_eq!(commands.len(), 3);
    client.batch_execute(&commands[..2].concat()).unwrap_or_else(|error| panic!("{error:?}"));
    shard.connect().batch_execute("INSERT INTO shop.outbox (topic, body) VALUES ('tea', '{}')").expect("a row");
    assert_eq!(client.execute(commands[2], &[]).expect("rows"), 1);
    // Everything is described, as psql's \\d+ and \\df+ show it.
    let silent = "SELECT count(*) FROM (
            SELECT pg_describe_object(classid, objid, 0), obj_description(objid, classid::regclass::name)
            FROM pg_depend d JOIN pg_extension e ON e.oid = refobjid AND extname = 'snowflake_feed'
            WHERE deptype = 'e' AND classid IN ('pg_proc'::regclass, 'pg_class'::regclass)
            UNION ALL SELECT attname, col_description(attrelid, attnum)
            FROM pg_attribute WHERE attrelid = 'snowflake_feed.servers'::regclass AND attnum > 2) AS o (what, text)
        WHERE text IS NULL";
    assert_eq!(value(&mut client, silent), "0");
}
