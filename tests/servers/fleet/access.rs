//! Who may check a fleet, and with whose secrets.

use super::fixture::{conninfo, member, problems, start};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::thread::spawn;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, error, test, value, waits_for};

pub const SECRET: &str = "open-sesame";

/// The message of an error for lack of a password, with its detail.
pub const REQUIRED: (&str, &str, Option<&str>) =
    ("2F003", "password is required", Some("Non-superusers must provide a password in the connection string."));

/// A server that asks the role `monitor` for a password, and nobody else.
pub fn guarded(worker: u32) -> Cluster {
    let cluster = start(member(worker).set("log_connections", "on"));
    let role = format!("CREATE ROLE monitor LOGIN PASSWORD '{SECRET}'");
    cluster.connect().batch_execute(&role).expect("a role");
    let path = cluster.data().join("pg_hba.conf");
    let rules = fs::read_to_string(&path).expect("pg_hba.conf");
    fs::write(&path, format!("local all monitor scram-sha-256\n{rules}")).expect("pg_hba.conf");
    cluster.reload();
    cluster
}

/// A session of a role that may check fleets, and is no superuser.
fn as_app(cluster: &Cluster) -> Client {
    cluster
        .connect()
        .batch_execute("CREATE ROLE app LOGIN; GRANT EXECUTE ON FUNCTION snowflake_check_fleet TO app")
        .expect("a role");
    cluster.config().user("app").connect(NoTls).expect("a session")
}

fn as_monitor(cluster: &Cluster, password: &str) -> String {
    format!("host={} user=monitor dbname=postgres password={password}", cluster.host().display())
}

fn query(asked: &str) -> String {
    format!("SELECT problem FROM snowflake_check_fleet(ARRAY['{asked}'])")
}

#[test]
fn checking_a_fleet_is_not_for_everybody() {
    let cluster = start(member(1));
    let mut client = cluster.connect();
    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    let check = query(&conninfo(&cluster));
    let refused = error(&mut client, &check);
    assert_eq!(
        (refused.code().code(), refused.message()),
        ("42501", "permission denied for function snowflake_check_fleet")
    );
    client
        .batch_execute("RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_check_fleet TO app; SET ROLE app")
        .expect("a grant");
    assert_eq!(error(&mut client, &check).message(), "password is required", "nothing else is refused");
}

#[test]
fn who_is_no_superuser_must_give_a_password_before_anything_is_connected() {
    let (one, two) = (start(member(1)), guarded(2));
    let mut client = as_app(&one);
    let with = as_monitor(&two, SECRET);
    let without = format!("host={} user=monitor dbname=postgres", two.host().display());
    let seen = || two.log().matches("user=monitor").count();
    for asked in [
        without.clone(),
        conninfo(&two),
        format!("{without} password="),
        format!("{without} password=''"),
        "postgresql://monitor@/postgres".to_owned(),
        "nonsense=".to_owned(),
        format!("{with}', '{without}"),
    ] {
        let refused = error(&mut client, &query(&asked.replace("''", "''''")));
        assert_eq!((refused.code().code(), refused.message(), refused.detail()), REQUIRED, "{asked}");
    }
    assert_eq!(seen(), 0, "{}", two.log());
    assert_eq!(problems(&mut client, &[with]), ["", ""]);
    assert_eq!(seen(), 1);
    assert_eq!(problems(&mut one.connect(), &[conninfo(&two)]), ["", ""], "a superuser need not");
}

/// libpq 18 writes the keys of a connection to a file that its parameters name, and libpq 19 can find the name in any
/// file. Before, it has another parameter for debugging.
#[test]
fn what_libpq_has_for_debugging_is_for_superusers() {
    let (one, two) = (start(member(1)), guarded(2));
    let keys = two.host().join("keys");
    let mut client = as_app(&one);
    let debugging = |parameter: &str| format!("{} {parameter}", as_monitor(&two, SECRET));
    let refused = error(&mut client, &query(&debugging("replication=database")));
    let message = "connection parameter \"replication\" is for superusers";
    assert_eq!((refused.code().code(), refused.message()), ("42501", message));
    // What libpq does not know is no connection string.
    for parameter in ["sslkeylogfile", "servicefile"] {
        let refused = error(&mut client, &query(&debugging(&format!("{parameter}={}", keys.display()))));
        assert!(["42501", REQUIRED.0].contains(&refused.code().code()), "{refused:?}");
    }
    // Nothing ends a session while libpq reads these.
    for parameter in ["sslrootcert", "sslcert", "sslkey", "sslcrl", "sslcrldir", "passfile"] {
        let refused = error(&mut client, &query(&debugging(&format!("{parameter}=/dev/ptmx"))));
        let message = format!("connection parameter \"{parameter}\" is for superusers");
        assert_eq!((refused.code().code(), refused.message()), ("42501", message.as_str()));
    }
    assert!(!keys.exists() && !two.log().contains("user=monitor"), "{}", two.log());
    problems(&mut one.connect(), &[debugging("replication=database")]);
}

#[test]
fn a_password_that_the_server_does_not_ask_for_is_none() {
    let (one, two) = (start(member(1)), guarded(1));
    let trusted = format!("{} password={SECRET}", conninfo(&two));
    let required = "password is required, and the server has not requested one";
    let mut client = as_app(&one);
    assert_eq!(
        problems(&mut client, &[trusted.clone(), as_monitor(&two, SECRET)])[1..],
        [required, "same worker ID as this server"]
    );
    assert_eq!(problems(&mut one.connect(), &[trusted])[1], "same worker ID as this server", "a superuser may");
}

/// libpq goes on to the second host after it was let in by the first one.
#[test]
fn a_password_that_another_host_of_the_connection_string_has_asked_for_is_none() {
    let [one, two, trusting] = [start(member(1)), guarded(2), start(member(3))];
    let role = "CREATE ROLE monitor LOGIN; ALTER ROLE monitor SET default_transaction_read_only = on";
    trusting.connect().batch_execute(role).expect("a role");
    let hosts = format!("{},{}", two.host().display(), trusting.host().display());
    let asked = format!("host={hosts} user=monitor dbname=postgres password={SECRET} target_session_attrs=read-only");
    let mut client = as_app(&one);
    let required = "password is required, and the server has not requested one";
    assert_eq!(problems(&mut client, std::slice::from_ref(&asked))[1], required);
    assert!(two.log().contains("user=monitor"), "{}", two.log());
    assert_eq!(problems(&mut one.connect(), &[asked]), ["", ""], "a superuser reaches the second one");
}

#[test]
fn an_ordinary_role_is_enough_on_the_servers_that_are_asked() {
    let two = guarded(2);
    let again = as_monitor(&two, SECRET);
    assert_eq!(problems(&mut two.connect(), &[again.clone(), again]), [""; 3], "listed twice, and itself");
}

#[test]
fn a_password_of_the_servers_own_is_for_superusers() {
    let two = guarded(2);
    let passfile = two.host().join("passfile");
    let one = member(1).environment("PGPASSFILE", &passfile.display().to_string());
    let one = start(one);
    // The servers' user must own it.
    let file = format!("COPY (SELECT '*:*:*:monitor:{SECRET}') TO '{}'", passfile.display());
    one.connect().batch_execute(&file).expect("a file");
    let mode = format!("COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; chmod 600 {}'", passfile.display());
    one.connect().batch_execute(&mode).expect("a file of the server's own");
    let without = format!("host={} user=monitor dbname=postgres", two.host().display());
    assert_eq!(problems(&mut one.connect(), std::slice::from_ref(&without)), ["", ""], "for a superuser");
    let mut client = as_app(&one);
    assert_eq!(error(&mut client, &query(&without)).code().code(), "2F003");
    let wrong = &problems(&mut client, &[format!("{without} password=wrong")])[1];
    assert!(wrong.ends_with("FATAL: password authentication failed for user \"monitor\""), "{wrong}");
}

/// libpq would read it as parameters, which override those that were checked; for the second of two hosts, too.
#[test]
fn a_database_name_is_never_read_as_a_connection_string() {
    let (one, two) = (start(member(1)), guarded(2));
    let dead = two.make_directory("dead");
    let _listener = UnixListener::bind(dead.join(".s.PGSQL.5432")).expect("a socket that never answers");
    let anybody = Permissions::from_mode(0o777);
    fs::set_permissions(dead.join(".s.PGSQL.5432"), anybody).expect("own file");
    let inner = "dbname=postgres";
    let mut client = as_app(&one);
    for hosts in [two.host().display().to_string(), format!("{},{}", dead.display(), two.host().display())] {
        let asked = format!("host={hosts} user=monitor password={SECRET} connect_timeout=2 dbname='{inner}'");
        let found = &problems(&mut client, &[asked])[1];
        assert!(found.ends_with(&format!("FATAL: database \"{inner}\" does not exist")), "{hosts}: {found}");
    }
}

#[test]
fn no_password_is_shown_or_logged() {
    let (one, two) = (start(member(1)), guarded(2));
    let host = two.host().display();
    let asked = [
        as_monitor(&two, SECRET),
        format!("host={host} user=nobody password={SECRET}"),
        format!("host=/nonexistent password={SECRET}"),
        format!("host=127.0.0.1 port=1 password={SECRET} sslpassword={SECRET}"),
        format!("host=127.0.0.1 port={SECRET}"),
        format!("nonsense={SECRET}"),
        format!("postgresql://monitor:x@{SECRET}@127.0.0.1:1/postgres"),
        format!("postgresql://monitor:{SECRET}/x@127.0.0.1/postgres"),
        format!("postgresql://monitor:{SECRET}%zz@127.0.0.1/postgres"),
    ];
    let mut client = one.connect();
    let rows = client.query("SELECT c::text, problem FROM snowflake_check_fleet($1) c", &[&asked.as_slice()]);
    for row in rows.expect("a check") {
        let (shown, problem): (String, Option<String>) = (row.get(0), row.get(1));
        assert!(!shown.contains(SECRET), "{shown}");
        assert_eq!(problem.is_none(), shown.starts_with("(0,") || shown.starts_with("(1,"), "{shown}");
    }

    let mut client = as_app(&one);
    let texts = asked.join("', '");
    let refused = [query(&texts), format!("SELECT snowflake_check_fleet(ARRAY['{}', NULL])", asked[0])];
    for query in refused {
        let refused = error(&mut client, &query);
        assert!(["2F003", "22004"].contains(&refused.code().code()), "{refused:?}");
        assert!(!format!("{refused:?}").contains(SECRET), "{refused:?}");
    }
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let process = value(&mut client, "SELECT pg_backend_pid()");
    let endless = query(&format!("host=127.0.0.1 port={port} password={SECRET} connect_timeout=3600"));
    let checking = spawn(move || error(&mut client, &endless));
    let waits = waits_for("SnowflakeRemote");
    one.wait_until(&format!("SELECT {waits} FROM pg_stat_activity WHERE pid = {process}"));
    assert_eq!(value(&mut one.connect(), &format!("SELECT pg_cancel_backend({process})")), "t");
    assert_eq!(checking.join().expect("a thread").code().code(), "57014");
    one.wait_for_log("canceling statement due to user request");
    for cluster in [&one, &two] {
        let log = cluster.log();
        assert_eq!(log.lines().find(|line| line.contains(SECRET)), None);
    }
    // The next statement is logged again.
    error(&mut one.connect(), "SELECT 1 / 0 AS marker");
    one.wait_for_log("STATEMENT:  SELECT 1 / 0 AS marker");
}
