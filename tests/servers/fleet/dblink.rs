//! dblink's rules for foreign servers as the measure: what it refuses, a check of a fleet refuses, too.

use super::access::{SECRET, guarded};
use super::fixture::{member, start};
use testbed::postgres::{Client, NoTls};
use testbed::{need_extension, test};

const CALLERS: [&str; 3] = ["postgres", "app", "guest"];

/// Options of a user mapping, and whose it is; none without them. `monitor` is asked for a password, of which the
/// server that asks has a file, and `postgres` is not.
const MAPPINGS: [(&str, &str); 7] = [
    ("", ""),
    ("CURRENT", "user 'monitor', password 'open-sesame'"),
    ("CURRENT", "user 'postgres', password 'open-sesame'"),
    ("CURRENT", "user 'postgres'"),
    ("CURRENT", "user 'monitor'"),
    ("PUBLIC", "user 'monitor', password 'open-sesame'"),
    ("PUBLIC", "user 'postgres'"),
];

/// Whether dblink connects, and whether the check has an answer.
fn outcomes(client: &mut Client, server: &str) -> [bool; 2] {
    let connects = client.batch_execute(&format!("SELECT dblink_connect('c', '{server}')")).is_ok();
    if connects {
        client.batch_execute("SELECT dblink_disconnect('c')").expect("a connection");
    }
    let check = format!("SELECT problem IS NULL FROM snowflake_check_fleet('{{{server}}}') WHERE server = 1");
    [connects, client.query_one(&check, &[]).is_ok_and(|row| row.get(0))]
}

#[test]
fn what_dblink_refuses_on_a_foreign_server_a_check_of_a_fleet_refuses_too() {
    need_extension("dblink");
    need_extension("postgres_fdw");
    let (one, two) = (start(member(1)), guarded(2));
    let passfile = two.host().join("passfile");
    let mut dba = one.connect();
    dba.batch_execute(&format!(
        "CREATE EXTENSION dblink; CREATE EXTENSION postgres_fdw; CREATE FOREIGN DATA WRAPPER plain;
         CREATE ROLE app LOGIN; CREATE ROLE guest LOGIN; GRANT EXECUTE ON FUNCTION snowflake_check_fleet TO app, guest;
         GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw, postgres_fdw, plain TO app;
         COPY (SELECT '*:*:*:monitor:{SECRET}') TO '{path}';
         COPY (SELECT 1) TO PROGRAM 'cat > /dev/null; chmod 600 {path}'",
        path = passfile.display()
    ))
    .expect("wrappers, and a file of the server's own");
    let mut sessions = CALLERS.map(|role| one.config().user(role).connect(NoTls).expect("a session"));
    let (mut asked, mut agreed) = (0, 0);
    for wrapper in ["dblink_fdw", "postgres_fdw", "plain"] {
        for (owner, (whose, options)) in ["postgres", "app"].into_iter().flat_map(|owner| MAPPINGS.map(|m| (owner, m)))
        {
            dba.batch_execute(&format!(
                "CREATE SERVER other FOREIGN DATA WRAPPER {wrapper}
                     OPTIONS (host '{}', dbname 'postgres', passfile '{}'); ALTER SERVER other OWNER TO {owner}",
                two.host().display(),
                passfile.display()
            ))
            .expect("a foreign server");
            for usage in
                ["REVOKE USAGE ON FOREIGN SERVER other FROM guest", "GRANT USAGE ON FOREIGN SERVER other TO guest"]
            {
                dba.batch_execute(usage).expect("a right");
                for (caller, session) in CALLERS.into_iter().zip(&mut sessions) {
                    let mapped = whose.replace("CURRENT", caller);
                    let map = format!("USER MAPPING FOR {mapped} SERVER other");
                    if !mapped.is_empty() {
                        dba.batch_execute(&format!("CREATE {map} OPTIONS ({options})")).expect("a mapping");
                    }
                    let [connects, answers] = outcomes(session, "other");
                    assert!(connects || !answers, "{caller} by {wrapper} of {owner}, {usage}, {mapped}: {options}");
                    asked += 1;
                    agreed += usize::from(connects && answers);
                    if !mapped.is_empty() {
                        dba.batch_execute(&format!("DROP {map}")).expect("no mapping");
                    }
                }
            }
            dba.batch_execute("DROP SERVER other").expect("no server");
        }
    }
    assert!(agreed > 20 && agreed < asked / 2, "{agreed} of {asked}");
}
