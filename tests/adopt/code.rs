//! A plan changes the type of a column, and PostgreSQL then chooses by their names which functions a table calls:
//! another role's can fit better than before. It must not run, not even once.

use super::{Plan, database, plan};
use std::thread;
use testbed::postgres::{Client, NoTls};
use testbed::{Database, error, test, value};

/// A sequence tells of a call that was rolled back, too.
const CAROL: &str = "
    CREATE SCHEMA tools; CREATE SEQUENCE tools.calls; GRANT ALL ON SCHEMA tools, public, ids TO carol; GRANT ALL ON SCHEMA tools TO mallet;
    GRANT ALL ON SEQUENCE tools.calls TO PUBLIC; SET ROLE carol;
    CREATE FUNCTION tools.is_fine(integer) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT $1 > 0';
    CREATE FUNCTION tools.is_fine(ids.snowflake) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';
    CREATE OPERATOR tools.<<< (LEFTARG = integer, RIGHTARG = integer, FUNCTION = int4lt);
    CREATE OPERATOR tools.<<< (LEFTARG = numeric, RIGHTARG = numeric, FUNCTION = numeric_lt);
    CREATE FUNCTION tools.is_fine(numeric) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT true';
    CREATE TABLE goods (id serial PRIMARY KEY, n integer); INSERT INTO goods (n) VALUES (7), (8); RESET ROLE";

/// What a table of carol's has, and what mallet makes then, which fits a bigint better. Since an SQL function can take
/// the place of its call, what that calls with a constant runs as soon as somebody looks at the expression.
const CASES: [(&str, &str); 5] = [
    ("ALTER TABLE goods ADD CONSTRAINT caller CHECK (tools.is_fine(id))", CALLS),
    ("CREATE INDEX caller ON goods (n) WHERE tools.is_fine(id)", CALLS),
    ("CREATE INDEX caller ON goods (tools.is_fine(id))", INLINED),
    ("ALTER TABLE goods ADD CONSTRAINT caller CHECK (0 OPERATOR(tools.<<<) id)", OPERATOR),
    ("CREATE MATERIALIZED VIEW m AS SELECT id FROM goods; CREATE INDEX caller ON m (tools.is_fine(id))", INLINED),
];

const CALLS: &str = "CREATE FUNCTION tools.is_fine(bigint) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
    'BEGIN PERFORM nextval(''tools.calls''); RETURN true; END'";
const INLINED: &str = "CREATE FUNCTION tools.call(integer) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS
        'BEGIN PERFORM nextval(''tools.calls''); RETURN true; END';
    CREATE FUNCTION tools.is_fine(bigint) RETURNS boolean IMMUTABLE LANGUAGE sql AS 'SELECT tools.call(1)'";
const OPERATOR: &str = "CREATE OPERATOR tools.<<< (LEFTARG = integer, RIGHTARG = bigint, FUNCTION = int48lt)";

/// The sessions of a superuser and of carol, who has such a table.
fn sessions(role: &str) -> (Database, Client, Client) {
    let (database, mut client) = database();
    let roles = format!("CREATE ROLE {role} LOGIN; CREATE ROLE {role}_mallet");
    client.batch_execute(&roles).expect("roles");
    client.batch_execute(&of(role, CAROL)).expect("a table");
    let carol = database.config().user(role).connect(NoTls).expect("a session");
    (database, client, carol)
}

/// As tests share servers, each has other roles.
fn of(role: &str, command: &str) -> String {
    command.replace("carol", role).replace("mallet", &format!("{role}_mallet"))
}

/// The first error of a plan, which has changed nothing then.
fn refused(client: &mut Client, commands: &[String]) -> Option<String> {
    let error = commands.iter().find_map(|command| client.batch_execute(command).err());
    client.batch_execute("ROLLBACK").expect("the end");
    error.map(|error| error.as_db_error().expect("an error of the server").message().to_owned())
}

fn is_called(client: &mut Client) -> bool {
    value(client, "SELECT is_called FROM tools.calls") == "t"
}

#[test]
fn a_plan_runs_no_function_of_another_role_that_came_after_it_was_made() {
    let (_database, mut client, mut carol) = sessions("carol");
    for (create, came) in CASES {
        client.batch_execute(&format!("SET ROLE carol; {create}; RESET ROLE")).expect("a caller");
        for by_owner in [false, true] {
            let session = if by_owner { &mut carol } else { &mut client };
            let Plan { commands, .. } = plan(session, "plan", "'goods'");
            client.batch_execute(&of("carol", &format!("SET ROLE mallet; {came}; RESET ROLE"))).expect("a function");
            let error = refused(if by_owner { &mut carol } else { &mut client }, &commands);
            assert!(error.is_some(), "{create}");
            assert!(!is_called(&mut client), "{create}: {error:?}");
            assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM goods"), "integer", "{create}");
            client
                .batch_execute("DROP OWNED BY carol_mallet; GRANT ALL ON SCHEMA tools TO carol_mallet")
                .expect("no function");
        }
        client
            .batch_execute("DROP MATERIALIZED VIEW IF EXISTS m; DROP INDEX IF EXISTS caller; ALTER TABLE goods DROP CONSTRAINT IF EXISTS caller")
            .expect("no caller");
    }
    client.batch_execute("DROP OWNED BY carol, carol_mallet; DROP ROLE carol, carol_mallet").expect("the end");
}

/// No row is rewritten, so nothing runs yet.
#[test]
fn a_plan_makes_no_function_of_another_role_code_of_a_table_without_partitions() {
    let (_database, mut client, mut cora) = sessions("cora");
    cora.batch_execute("CREATE TABLE bare (id serial CHECK (tools.is_fine(id)), n integer) PARTITION BY LIST (n)")
        .expect("a table");
    let Plan { commands, .. } = plan(&mut cora, "plan", "'bare'");
    client.batch_execute(&format!("SET ROLE cora_mallet; {CALLS}; RESET ROLE")).expect("a function");
    let error = refused(&mut cora, &commands);
    assert_eq!(error.as_deref(), Some("a function of another role has got the name of one that a table calls"));
    client.batch_execute("DROP OWNED BY cora, cora_mallet; DROP ROLE cora, cora_mallet").expect("the end");
}

/// The plan has looked at all that it could look at by then.
#[test]
fn a_plan_runs_no_function_of_another_role_that_comes_as_a_command_begins() {
    let (database, mut client, mut caro) = sessions("caro");
    caro.batch_execute("ALTER TABLE goods ADD CONSTRAINT caller CHECK (tools.is_fine(id))").expect("a caller");
    let Plan { commands, .. } = plan(&mut caro, "plan", "'goods'");
    client
        .batch_execute(
            "CREATE FUNCTION holds_up() RETURNS event_trigger LANGUAGE plpgsql SET lock_timeout = 0 AS
                'BEGIN PERFORM pg_advisory_xact_lock_shared(1); END';
             CREATE EVENT TRIGGER holds_up ON ddl_command_start WHEN TAG IN ('ALTER TABLE') EXECUTE FUNCTION holds_up();
             SELECT pg_advisory_lock(1)",
        )
        .expect("an event trigger");
    let error = thread::scope(|scope| {
        let refused = scope.spawn(|| refused(&mut caro, &commands));
        database.wait_until(
            "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
                WHERE NOT granted AND locktype = 'advisory' AND datname = current_database())",
        );
        client.batch_execute(&format!("SET ROLE caro_mallet; {CALLS}; RESET ROLE")).expect("a function");
        client.batch_execute("SELECT pg_advisory_unlock(1)").expect("no lock");
        refused.join().expect("a session")
    });
    assert_eq!(error.as_deref(), Some("a function of another role has got the name of one that a table calls"));
    assert!(!is_called(&mut client));
    client.batch_execute("DROP OWNED BY caro, caro_mallet; DROP ROLE caro, caro_mallet").expect("the end");
}

/// A key of type snowflake becomes a bigint on the way back.
#[test]
fn a_plan_back_makes_no_function_of_another_role_code_of_a_table() {
    let (_database, mut client, mut carla) = sessions("carla");
    carla
        .batch_execute(
            "CREATE TABLE made (id ids.snowflake PRIMARY KEY DEFAULT ids.snowflake_nextval(), CONSTRAINT caller CHECK (tools.is_fine(id)));
             INSERT INTO made DEFAULT VALUES",
        )
        .expect("a table");
    let Plan { commands, .. } = plan(&mut carla, "revert_plan", "'made'");
    client.batch_execute(&format!("SET ROLE carla_mallet; {CALLS}; RESET ROLE")).expect("a function");
    let error = refused(&mut carla, &commands);
    assert_eq!(error.as_deref(), Some("a function of another role has got the name of one that a table calls"));
    assert!(!is_called(&mut client));
    let now = plan(&mut carla, "revert_plan", "'made'");
    let says = "constraint caller on table public.made could call tools.is_fine(bigint) of carla_mallet then: rename that, or drop this one until the end.";
    assert_eq!((now.commands.len(), now.notes), (0, vec![says.to_owned()]));
    client.batch_execute("DROP FUNCTION tools.is_fine(bigint)").expect("no function");
    super::run(&mut carla, "revert_plan", "'made'");
    client.batch_execute("DROP OWNED BY carla, carla_mallet; DROP ROLE carla, carla_mallet").expect("the end");
}

/// Code that carol's own calls is carol's affair.
#[test]
fn a_plan_runs_what_functions_of_the_owner_call_whoever_has_made_it() {
    let (_database, mut client, _) = sessions("carlo");
    client
        .batch_execute(
            "SET ROLE carlo_mallet; CREATE FUNCTION tools.help(bigint) RETURNS boolean LANGUAGE plpgsql AS
                'BEGIN PERFORM nextval(''tools.calls''); RETURN true; END'; RESET ROLE;
             SET ROLE carlo; CREATE FUNCTION tools.asks(bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN RETURN tools.help($1); END';
             CREATE FUNCTION tools.ask(bigint) RETURNS boolean LANGUAGE sql AS 'SELECT tools.help($1)';
             ALTER TABLE goods ADD CHECK (tools.asks(id)), ADD CHECK (tools.ask(id)); RESET ROLE",
        )
        .expect("a caller");
    super::run(&mut client, "plan", "'goods'");
    assert!(is_called(&mut client));
    let refused = error(&mut client, "SELECT snowflake_adopt.run_calling_only('carlo', '{goods}', '{}', 'SELECT 1')");
    assert_eq!(refused.message(), "a function of another role has got the name of one that a table calls");
    client.batch_execute("DROP OWNED BY carlo, carlo_mallet; DROP ROLE carlo, carlo_mallet").expect("the end");
}
