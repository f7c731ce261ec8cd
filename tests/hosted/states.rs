//! What the status says, in the words of the extension.

use super::{refusal, server, server_with_clock};
use testbed::postgres::Client;
use testbed::{Cluster, hosted_script, test, value};

/// The state, the SQLSTATE of the problem and its first sentence.
fn shown(client: &mut Client) -> String {
    let status = "SELECT concat_ws(' ', state, problem_sqlstate, split_part(problem, '. ', 1)) FROM snowflake_status";
    value(client, status)
}

/// What the next call says, as the status shows it; nothing if it gets an ID.
fn raised(client: &mut Client) -> String {
    let Err(error) = client.simple_query("SELECT snowflake_nextval()") else { return String::new() };
    let error = error.as_db_error().expect("an error of the server");
    let mut message = error.message().to_owned();
    message[..1].make_ascii_uppercase();
    format!(" {} {message}", error.code().code())
}

#[test]
fn both_editions_show_the_same_states_with_the_errors_that_calls_get() {
    let extension = Cluster::builder().worker(7).own_clock().start();
    extension.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    extension.wait_until("SELECT state = 'idle' FROM snowflake_status");
    let hosted = server_with_clock(7);
    let standbys = [&extension, &hosted].map(|primary| Cluster::builder().own_clock().standby_of(primary));
    standbys[0].wait_for_commits_of(&extension);
    standbys[1].wait_for_commits_of(&hosted);
    let assert_both = |[extension, hosted]: [&Cluster; 2], state: &str| {
        let both = [extension, hosted].map(|cluster| {
            let mut client = cluster.connect();
            let shown = shown(&mut client);
            assert!(shown.starts_with(state), "{shown} instead of {state}");
            assert_eq!(shown, format!("{state}{}", raised(&mut client)));
            shown
        });
        assert_eq!(both[0], both[1]);
    };
    let primaries = [&extension, &hosted];
    assert_both(primaries, "idle");
    assert_both(primaries, "ready");
    assert_both([&standbys[0], &standbys[1]], "standby");
    primaries.iter().for_each(|cluster| cluster.set_clock(-600.0));
    assert_both(primaries, "clock behind");
    // Before 2010.
    primaries.iter().for_each(|cluster| cluster.set_clock(-631_000_000.0));
    assert_both(primaries, "outside the layout");
}

/// The extension calls itself a server there, and names its parameter.
#[test]
fn without_a_worker_both_editions_show_the_same_state_and_sqlstate() {
    let extension = Cluster::builder().worker("").start();
    extension.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let hosted = Cluster::builder().start();
    hosted.connect().batch_execute(&hosted_script()).expect("the script");
    for cluster in [extension, hosted] {
        let mut client = cluster.connect();
        assert!(shown(&mut client).starts_with("worker unset 55000 This "), "{}", shown(&mut client));
        assert!(raised(&mut client).ends_with(" has no worker ID"));
    }
}

#[test]
fn every_column_of_the_status_has_the_name_and_the_type_of_the_extensions() {
    let extension = Cluster::builder().worker(7).database();
    let mut extension = extension.connect();
    extension.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    let hosted = server(7);
    let mut hosted = hosted.connect();
    let columns = "SELECT string_agg(attname || ' ' || atttypid::regtype, ', ') FROM pg_attribute
        WHERE attrelid = 'snowflake_status'::regclass AND attnum > 0";
    let theirs = value(&mut extension, columns);
    let ours = value(&mut hosted, columns);
    let missing: Vec<_> = ours.split(", ").filter(|column| !theirs.split(", ").any(|their| their == *column)).collect();
    assert_eq!(missing, [""; 0], "not in {theirs}");
}

/// A service can have sequences of its own. There, every call would fail, and say that a dump was restored.
#[test]
fn the_owner_learns_at_set_up_that_the_sequences_of_a_server_do_not_show_what_a_dump_sets() {
    let cluster = Cluster::builder().start();
    let mut owner = cluster.connect();
    owner.batch_execute(&hosted_script()).expect("the script");
    // A sequence that has no next number counts none in advance.
    owner.batch_execute("ALTER SEQUENCE snowflake_began INCREMENT 2 MAXVALUE 1").expect("a sequence");
    let refused = ("0A000".to_owned(), "the sequences of this server do not keep log_cnt".to_owned());
    assert_eq!(refusal(&mut owner, "SELECT snowflake_set_worker_id(7)"), refused);
    assert!(shown(&mut owner).starts_with("worker unset "), "{}", shown(&mut owner));
    owner.batch_execute("ALTER SEQUENCE snowflake_began INCREMENT 1 NO MAXVALUE").expect("a sequence");
    owner.batch_execute("SELECT snowflake_set_worker_id(7)").expect("a worker");
    value(&mut owner, "SELECT snowflake_nextval()");
}
