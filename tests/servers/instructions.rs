//! How many instructions it takes to issue an ID, to read one, and to plan a query without any: a number that no noise
//! changes. When a change makes it greater for a reason, raise the ceiling with that change.
//!
//! Counted by valgrind's callgrind in the release build of the extension, in a server's own process (single-user mode).

use std::fs;
use testbed::{Cluster, Signal, skip, test};

const CALLS: u32 = 20_000;
const PLANS: u32 = 20;

/// The ceilings are for this architecture; each has instructions of its own.
fn need_x86_64() {
    if cfg!(not(target_arch = "x86_64")) {
        skip("the instructions of x86-64 are counted");
    }
}

/// Instructions of one call from its first to its last, without what `not_in` does meanwhile. A function is followed
/// into what it calls.
fn instructions(server: &Cluster, call: &str, function: &str, not_in: Option<&str>) -> f64 {
    let query = format!(
        "SELECT count({call}) FROM generate_series(1541815603606036480, 1541815603606036480 + {CALLS} - 1) i\n"
    );
    let toggles: Vec<_> = [Some(function), not_in].into_iter().flatten().collect();
    let (printed, collected) = collected(server, &query, &toggles);
    assert!(printed.contains(&format!("count = \"{CALLS}\"")), "{printed}");
    collected / f64::from(CALLS)
}

/// What a query prints, and the instructions in the first of these functions, without those in the second one.
fn collected(server: &Cluster, query: &str, functions: &[&str]) -> (String, f64) {
    let log = server.host().join("callgrind.log");
    let _ = fs::remove_file(&log);
    let log_option = format!("--log-file={}", log.display());
    let toggles: Vec<_> = functions.iter().map(|function| format!("--toggle-collect={function}")).collect();
    let mut runner = vec!["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"];
    runner.push(&log_option);
    runner.extend(toggles.iter().map(String::as_str));
    let printed = server.single_user_under(&runner, query);
    let said = fs::read_to_string(&log).expect("what callgrind says");
    let collected = said.split_once("Collected :").expect("a count").1.split_whitespace().next().expect("a number");
    let collected: f64 = collected.parse().expect("a number");
    assert!(collected >= f64::from(PLANS), "nothing calls {}", functions[0]);
    (printed, collected)
}

fn server(time_stamp_counter: &str) -> Cluster {
    let mut server = Cluster::builder().worker(0).set("snowflake_pg.time_stamp_counter", time_stamp_counter).start();
    server.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    server.stop(Signal::INT);
    server
}

#[test]
fn an_id_takes_no_more_instructions_than_it_did() {
    need_x86_64();
    // Beyond that is what happens once a tick, or in an error.
    let nextval =
        |server: &Cluster| instructions(server, "snowflake_nextval()", "snowflake_nextval", Some("*::slow_path"));
    let by_clock = nextval(&server("off"));
    println!("snowflake_nextval() by the clock: {by_clock:.1} instructions and those of the clock");
    // With the counter if the kernel keeps time by it, else with the clock.
    let auto = nextval(&server("auto"));
    let source = fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    let by_counter = source.is_ok_and(|source| source.trim() == "tsc");
    println!("snowflake_nextval() by the counter, if there is one: {auto:.1} instructions");
    assert!(by_clock <= 74.0, "{by_clock}");
    assert!(auto <= if by_counter { 45.0 } else { 74.0 }, "{auto}");
}

#[test]
fn reading_an_id_takes_no_more_instructions_than_it_did() {
    need_x86_64();
    // The planner has added the layout to the call.
    let function = "snowflake_timestamp_with_layout_wrapper";
    let timestamp = instructions(&server("auto"), "snowflake_timestamp(i)", function, None);
    println!("snowflake_timestamp(): {timestamp:.1} instructions");
    // 354, or some more by how the text of the layout lies in memory, which the length of a path decides.
    assert!(timestamp <= 374.0, "{timestamp}");
}

#[test]
fn finding_the_shard_of_an_id_takes_no_more_instructions_than_it_did() {
    need_x86_64();
    let function = "snowflake_shard_of_wrapper";
    let shard = instructions(&server("auto"), "snowflake_shard_of(i, 32)", function, None);
    println!("snowflake_shard_of(): {shard:.1} instructions");
    assert!(shard <= 96.0, "{shard}");
}

/// What the hook adds to each condition of a query, whose columns are no times of IDs.
#[test]
fn planning_without_ids_takes_no_more_instructions_than_it_did() {
    need_x86_64();
    let mut server = Cluster::builder().worker(0).start();
    let table = "CREATE TABLE plain (n integer, at timestamptz)";
    server.connect().batch_execute(&format!("CREATE EXTENSION snowflake_pg; {table}")).expect("a table");
    server.stop(Signal::INT);
    for (condition, ceiling) in [("n = 2", 280.0), ("at = '2026-01-01Z'", 720.0)] {
        let conditions = [condition; 200].join(" OR ");
        let query = format!(
            "DO $do$ BEGIN FOR n IN 1..{PLANS} LOOP EXECUTE $$EXPLAIN SELECT * FROM plain WHERE {conditions}$$; END LOOP; END $do$\n"
        );
        let (_, collected) = collected(&server, &query, &["*::hooks::planner::plan", "standard_planner"]);
        let each = collected / f64::from(PLANS) / 200.0;
        println!("{condition}: {each:.1} instructions in the planner's hook");
        assert!(each <= ceiling, "{condition}: {each}");
    }
}
