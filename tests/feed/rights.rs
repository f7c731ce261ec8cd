//! What a role may do that is no superuser.

use super::fixture::{Fleet, insert, read, read_all, wait_for_rows};
use std::fs;
use std::time::Instant;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, PATIENCE, error, test, value};

/// Lets the role `remote` in only with its password, to read only.
fn guard(member: &Cluster) {
    member
        .connect()
        .batch_execute("CREATE ROLE remote LOGIN PASSWORD 'open-sesame'; GRANT SELECT ON outbox TO remote")
        .expect("a role");
    let path = member.data().join("pg_hba.conf");
    let rules = fs::read_to_string(&path).expect("pg_hba.conf");
    fs::write(&path, format!("local all remote scram-sha-256\n{rules}")).expect("pg_hba.conf");
    member.reload();
}

fn as_role(fleet: &Fleet, role: &str) -> Client {
    fleet.reader.config().user(role).connect(NoTls).expect("a session")
}

/// Reads until this is the problem of a server, since one with a problem is asked again only after a while.
fn wait_for_problem(client: &mut Client, expected: &str) {
    let deadline = Instant::now() + PATIENCE;
    let problems = "SELECT coalesce(string_agg(problem, '; '), '') FROM snowflake_feed.servers";
    loop {
        assert_eq!(read(client, ""), "");
        let shown = value(client, problems);
        if shown.contains(expected) {
            return;
        }
        assert!(Instant::now() < deadline, "{shown}");
    }
}

#[test]
fn a_role_reads_with_a_password_and_may_do_nothing_else() {
    let fleet = Fleet::start(2);
    fleet.members.iter().for_each(guard);
    let mut dba = fleet.reader.connect();
    dba.batch_execute("CREATE ROLE consumer LOGIN; CREATE ROLE other LOGIN; GRANT SELECT ON outbox TO consumer")
        .expect("roles");
    insert(&fleet.members[0], &["one"]);
    insert(&fleet.members[1], &["two"]);
    let mut consumer = as_role(&fleet, "consumer");
    let functions = [
        "SELECT snowflake_feed.read(NULL::outbox, 'all')",
        "SELECT snowflake_feed.read_marked(NULL::outbox, 'all')",
        "SELECT snowflake_feed.create('mine', 'public.outbox')",
        "SELECT snowflake_feed.add_server('all', 's0')",
        "SELECT snowflake_feed.drop_server('all', 's0', true)",
        "SELECT snowflake_feed.drop('all')",
        "SELECT snowflake_feed.allow_reader('consumer')",
        "SELECT snowflake_feed.forbid_reader('postgres')",
    ];
    let tables = [
        "SELECT FROM snowflake_feed.servers",
        "SELECT FROM snowflake_feed.member",
        "UPDATE snowflake_feed.feed SET source = 'pg_catalog.pg_authid'",
        "UPDATE snowflake_feed.member SET system_identifier = 1",
        "UPDATE snowflake_feed.member SET layout = 'js'",
        "INSERT INTO snowflake_feed.feed VALUES ('mine', 'a.b', 'id')",
        "DELETE FROM snowflake_feed.member",
        "TRUNCATE snowflake_feed.member",
    ];
    for statement in functions.iter().chain(&tables) {
        assert_eq!(error(&mut consumer, statement).code().code(), "42501", "{statement}");
    }
    let calls = "SELECT oid::regprocedure::text FROM pg_proc WHERE pronamespace = 'snowflake_feed'::regnamespace
        AND (has_function_privilege('public', oid, 'EXECUTE') OR has_function_privilege('consumer', oid, 'EXECUTE'))";
    assert!(dba.query(calls, &[]).expect("functions").is_empty());

    value(&mut dba, "SELECT snowflake_feed.allow_reader('consumer')::text");
    wait_for_problem(&mut consumer, "user mapping not found for ");
    for nth in 0..2 {
        let mapping = format!("CREATE USER MAPPING FOR consumer SERVER s{nth} OPTIONS (user 'postgres')");
        dba.batch_execute(&mapping).expect("a user mapping");
    }
    wait_for_problem(&mut consumer, "permission denied for foreign server s");
    dba.batch_execute("GRANT USAGE ON FOREIGN SERVER s0, s1 TO consumer").expect("a grant");
    wait_for_problem(&mut consumer, "password");
    for nth in 0..2 {
        let mapping = format!(
            "ALTER USER MAPPING FOR consumer SERVER s{nth} OPTIONS (SET user 'remote', ADD password 'open-sesame')"
        );
        dba.batch_execute(&mapping).expect("a user mapping");
    }
    wait_for_rows(&mut consumer, "one two");
    for statement in functions[2..].iter().chain(&tables[2..]) {
        assert_eq!(error(&mut consumer, statement).code().code(), "42501", "{statement}");
    }
    // A session that becomes another role connects with the mapping of that one.
    dba.batch_execute(
        "GRANT other TO consumer; GRANT USAGE ON FOREIGN SERVER s0, s1 TO other; GRANT SELECT ON outbox TO other",
    )
    .expect("a grant");
    value(&mut dba, "SELECT snowflake_feed.allow_reader('other')::text");
    consumer.batch_execute("SET ROLE other").expect("a role");
    // In the words of each version.
    wait_for_problem(&mut consumer, "\"other\"");
    consumer.batch_execute("RESET ROLE").expect("a role");
    dba.batch_execute("REVOKE other FROM consumer").expect("a revocation");
    value(&mut dba, "SELECT snowflake_feed.forbid_reader('consumer')::text");
    assert_eq!(error(&mut consumer, functions[0]).code().code(), "42501");
}

#[test]
fn a_role_that_is_no_superuser_can_have_its_own_feeds() {
    let fleet = Fleet::start(1);
    guard(&fleet.members[0]);
    let mut dba = fleet.reader.connect();
    dba.batch_execute(
        "DROP EXTENSION snowflake_feed; CREATE ROLE owner LOGIN; GRANT CREATE ON DATABASE postgres TO owner;
         GRANT USAGE ON FOREIGN SERVER s0 TO owner; GRANT SELECT ON outbox TO owner; CREATE ROLE known;
         CREATE USER MAPPING FOR owner SERVER s0 OPTIONS (user 'remote', password 'open-sesame');
         ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON TABLES TO known;
         ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON FUNCTIONS TO known;
         ALTER DEFAULT PRIVILEGES FOR ROLE owner GRANT ALL ON SCHEMAS TO known",
    )
    .expect("a role");
    let mut owner = as_role(&fleet, "owner");
    owner
        .batch_execute(
            "CREATE EXTENSION snowflake_feed; SELECT snowflake_feed.create('all', 'public.outbox');
             SELECT snowflake_feed.add_server('all', 's0')",
        )
        .unwrap_or_else(|error| panic!("{error:?}"));
    insert(&fleet.members[0], &["one"]);
    assert_eq!(read_all(&mut owner), "one");
    let theirs = "SELECT count(*) FROM (SELECT nspacl FROM pg_namespace WHERE nspname = 'snowflake_feed'
        UNION ALL SELECT relacl FROM pg_class WHERE relnamespace = 'snowflake_feed'::regnamespace
        UNION ALL SELECT proacl FROM pg_proc WHERE pronamespace = 'snowflake_feed'::regnamespace) AS o (acl),
        aclexplode(acl) WHERE grantee <> 'owner'::regrole";
    assert_eq!(value(&mut owner, theirs), "0");
    value(&mut owner, "SELECT snowflake_feed.drop_server('all', 's0')::text");
}
