//! Servers that are asked by the name of a foreign server.

use super::access::{REQUIRED, SECRET, guarded};
use super::fixture::{member, start};
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, error, need_extension, test, value};

const CHECK: &str = "SELECT coalesce(problem, '') FROM snowflake_check_fleet('{pg-2}') ORDER BY server";

/// A server that has another one as the foreign server pg-2, which belongs to a superuser, of a wrapper without code.
/// And two roles that may check and audit fleets.
fn with_foreign_server(other: &Cluster) -> Cluster {
    let cluster = start(member(1));
    let commands = format!(
        "CREATE FOREIGN DATA WRAPPER plain;
         CREATE SERVER \"pg-2\" FOREIGN DATA WRAPPER plain OPTIONS (host '{}', dbname 'postgres', fetch_size '7', port '');
         CREATE ROLE app LOGIN; CREATE ROLE guest LOGIN;
         GRANT EXECUTE ON FUNCTION snowflake_check_fleet, snowflake_audit_fleet TO app, guest",
        other.host().display()
    );
    cluster.connect().batch_execute(&commands).expect("a foreign server");
    cluster
}

fn mapping(role: &str, options: &str) -> String {
    format!("CREATE USER MAPPING FOR {role} SERVER \"pg-2\" OPTIONS ({options})")
}

fn with_password() -> String {
    format!("user 'monitor', password '{SECRET}'")
}

fn as_role(cluster: &Cluster, role: &str) -> Client {
    cluster.config().user(role).connect(NoTls).expect("a session")
}

fn column(client: &mut Client, query: &str) -> Vec<String> {
    let rows = client.query(query, &[]).unwrap_or_else(|error| panic!("{query}: {error:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

fn refusal(client: &mut Client, query: &str) -> (String, String) {
    let refused = error(client, query);
    (refused.code().code().to_owned(), refused.message().to_owned())
}

#[test]
fn a_foreign_server_is_asked_by_its_name_and_no_password_is_in_the_query() {
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let mut dba = one.connect();
    dba.batch_execute(&mapping("app", &with_password())).expect("a mapping");
    dba.batch_execute("GRANT USAGE ON FOREIGN SERVER \"pg-2\" TO app").expect("a grant");
    let mut app = as_role(&one, "app");
    assert_eq!(column(&mut app, CHECK), ["", ""]);
    let found =
        "SELECT concat_ws('|', server, address, worker_id) FROM snowflake_check_fleet('{pg-2}') WHERE server = 1";
    assert_eq!(value(&mut app, found), "1|pg-2|2");
    let audit = "SELECT result FROM snowflake_audit_fleet('{pg-2}') LIMIT 1";
    assert_ne!(value(&mut app, audit), "");
    let both = format!("'{{pg-2, host={} user=monitor dbname=postgres password={SECRET}}}'", two.host().display());
    let twice = format!("SELECT coalesce(problem, '') FROM snowflake_check_fleet({both}) ORDER BY server");
    assert_eq!(column(&mut app, &twice), ["", "", ""], "one server that is listed twice");
}

#[test]
fn who_may_not_use_a_foreign_server_cannot_ask_it_nor_use_another_roles_mapping() {
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let mut dba = one.connect();
    dba.batch_execute(&mapping("PUBLIC", &with_password())).expect("a mapping");
    let mut guest = as_role(&one, "guest");
    let audit = "SELECT * FROM snowflake_audit_fleet('{pg-2}')";
    for query in [CHECK, audit] {
        let refused = refusal(&mut guest, query);
        assert_eq!(refused, ("42501".to_owned(), "permission denied for foreign server pg-2".to_owned()));
    }
    assert!(!two.log().contains("user=monitor"), "{}", two.log());
    dba.batch_execute("GRANT USAGE ON FOREIGN SERVER \"pg-2\" TO guest").expect("a grant");
    assert_eq!(column(&mut guest, CHECK), ["", ""], "by the mapping of PUBLIC");

    dba.batch_execute("DROP USER MAPPING FOR PUBLIC SERVER \"pg-2\"").expect("no mapping");
    for role in ["app", "postgres"] {
        dba.batch_execute(&mapping(role, &with_password())).expect("a mapping of another role");
    }
    let (code, message) = refusal(&mut guest, CHECK);
    assert!(code == "42704" && message.starts_with("user mapping not found for "), "{message}");
}

#[test]
fn a_foreign_server_needs_a_password_unless_superusers_have_made_it_and_ask_it() {
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let mut dba = one.connect();
    dba.batch_execute("GRANT USAGE ON FOREIGN SERVER \"pg-2\" TO app").expect("a grant");
    let mut app = as_role(&one, "app");
    app.batch_execute(&mapping("app", "user 'postgres'")).expect("a mapping of its own");
    dba.batch_execute(&mapping("postgres", "user 'postgres'")).expect("a mapping");
    let required = (REQUIRED.0.to_owned(), REQUIRED.1.to_owned());
    assert_eq!(refusal(&mut app, CHECK), required);
    // The other server trusts whoever says to be that user.
    assert_eq!(column(&mut dba, CHECK), ["", ""], "a superuser's server, asked by a superuser");
    app.batch_execute(&format!("ALTER USER MAPPING FOR app SERVER \"pg-2\" OPTIONS (ADD password '{SECRET}')"))
        .expect("a password");
    assert_eq!(column(&mut app, CHECK)[1], "password is required, and the server has not requested one");

    // Whoever owns the server could have a superuser connect as the operating system's user.
    let give = "GRANT USAGE ON FOREIGN DATA WRAPPER plain TO app; ALTER SERVER \"pg-2\" OWNER TO app";
    dba.batch_execute(give).expect("another owner");
    assert_eq!(refusal(&mut dba, CHECK), required);
}

#[test]
fn what_libpq_has_for_debugging_is_no_option_of_a_foreign_server() {
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let mut dba = one.connect();
    for role in ["app", "postgres"] {
        dba.batch_execute(&mapping(role, &with_password())).expect("a mapping");
    }
    let add = "ALTER SERVER \"pg-2\" OPTIONS (ADD replication 'database');
        GRANT USAGE ON FOREIGN DATA WRAPPER plain TO app; GRANT USAGE ON FOREIGN SERVER \"pg-2\" TO app";
    dba.batch_execute(add).expect("an option");
    let refused = ("42501".to_owned(), "connection parameter \"replication\" is for superusers".to_owned());
    let mut app = as_role(&one, "app");
    assert_eq!(refusal(&mut app, CHECK), refused);
    dba.batch_execute("ALTER SERVER \"pg-2\" OWNER TO app").expect("another owner");
    assert_eq!(refusal(&mut dba, CHECK), refused, "a superuser, by the server of another role");
    assert!(!two.log().contains("user=monitor"), "{}", two.log());
}

/// Whoever calls may be made to read a file that never ends, which nothing interrupts.
#[test]
fn a_foreign_server_names_files_to_read_only_if_it_is_of_a_superuser() {
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let mut dba = one.connect();
    for role in ["app", "postgres"] {
        dba.batch_execute(&mapping(role, &with_password())).expect("a mapping");
    }
    let add = "ALTER SERVER \"pg-2\" OPTIONS (ADD sslrootcert '/nowhere');
        GRANT USAGE ON FOREIGN DATA WRAPPER plain TO app; GRANT USAGE ON FOREIGN SERVER \"pg-2\" TO app";
    dba.batch_execute(add).expect("an option");
    let mut app = as_role(&one, "app");
    assert_eq!(column(&mut app, CHECK), ["", ""]);
    dba.batch_execute("ALTER SERVER \"pg-2\" OWNER TO app").expect("another owner");
    let refused = ("42501".to_owned(), "connection parameter \"sslrootcert\" is for superusers".to_owned());
    for client in [&mut app, &mut dba] {
        assert_eq!(refusal(client, CHECK), refused);
    }
}

/// Everybody who may use a server may make a mapping of it.
#[test]
fn a_user_mapping_says_who_connects_and_not_where() {
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let mut dba = one.connect();
    dba.batch_execute("GRANT USAGE ON FOREIGN SERVER \"pg-2\" TO app").expect("a grant");
    let mut app = as_role(&one, "app");
    let elsewhere = format!("{}, host '/nowhere', replication 'database', dbname 'nothing'", with_password());
    app.batch_execute(&mapping("app", &elsewhere)).expect("a mapping of its own");
    assert_eq!(column(&mut app, CHECK), ["", ""]);
    dba.batch_execute(&format!("ALTER SERVER \"pg-2\" OPTIONS (ADD password '{SECRET}', ADD user 'monitor')"))
        .expect("a password that everybody can read");
    app.batch_execute("ALTER USER MAPPING FOR app SERVER \"pg-2\" OPTIONS (DROP password)").expect("no password");
    assert_eq!(refusal(&mut app, CHECK).0, REQUIRED.0);
}

#[test]
fn what_is_no_foreign_server_is_refused_and_shown_nowhere() {
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let mut dba = one.connect();
    let long = SECRET.repeat(10);
    for name in
        ["PG-2", "pg-2 ", "\"\"", &format!("password {SECRET}"), &long, &format!("Postgres://monitor:{SECRET}@pg-2")]
    {
        let refused = error(
            &mut dba,
            &format!("SELECT * FROM snowflake_check_fleet('{{host=/nowhere, {name}}}')").replace("pg-2 ", "\"pg-2 \""),
        );
        assert_eq!(refused.code().code(), "42704", "{name}");
        assert_eq!(refused.message(), "server 2 is neither a connection string nor the name of a foreign server");
        assert!(refused.hint().is_some_and(|hint| hint.contains("pg_foreign_server")), "{refused:?}");
    }
    assert!(!one.log().contains(SECRET), "{}", one.log());
}

#[test]
fn a_foreign_server_of_postgres_fdw_is_asked_with_its_own_options_left_out() {
    need_extension("postgres_fdw");
    let two = guarded(2);
    let one = with_foreign_server(&two);
    let commands = format!(
        "CREATE EXTENSION postgres_fdw;
         CREATE SERVER shard FOREIGN DATA WRAPPER postgres_fdw
             OPTIONS (host '{}', dbname 'postgres', use_remote_estimate 'true', fetch_size '7');
         CREATE USER MAPPING FOR app SERVER shard OPTIONS ({}, password_required 'false');
         GRANT USAGE ON FOREIGN SERVER shard TO app",
        two.host().display(),
        with_password()
    );
    one.connect().batch_execute(&commands).expect("a foreign server");
    let mut app = as_role(&one, "app");
    assert_eq!(column(&mut app, &CHECK.replace("pg-2", "shard")), ["", ""]);
    let without = "ALTER USER MAPPING FOR app SERVER shard OPTIONS (DROP password)";
    one.connect().batch_execute(without).expect("no password");
    assert_eq!(refusal(&mut app, &CHECK.replace("pg-2", "shard")).0, REQUIRED.0, "password_required is postgres_fdw's");
}
