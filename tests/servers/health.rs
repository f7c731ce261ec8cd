//! What `snowflake_status` says of problems and limits, and `snowflake_metrics`, which has the same as numbers.

use testbed::postgres::types::Type;
use testbed::{Builder, Cluster, Load, Order, Signal, error, project, test, value};

fn builder() -> Builder {
    Cluster::builder().worker(7).set("timezone", "UTC")
}

fn status(cluster: &Cluster, column: &str) -> String {
    value(&mut cluster.connect(), &format!("SELECT {column} FROM snowflake_status"))
}

/// What the view calls the problem is the error of a call.
fn assert_problem(cluster: &Cluster, state: &str, message: &str) {
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION IF NOT EXISTS snowflake_pg").expect("the extension");
    assert_eq!(status(cluster, "state"), state);
    let refused = error(&mut client, "SELECT snowflake_nextval()");
    assert_eq!(refused.message(), message);
    assert_eq!(status(cluster, "problem_sqlstate"), refused.code().code(), "{state}");
    let problem = status(cluster, "problem");
    let mut capital = message.to_owned();
    capital[..1].make_ascii_uppercase();
    let begins = format!("{capital}. {}", refused.detail().unwrap_or_default());
    // A detail can have the time, to the millisecond.
    let same = begins.len().min(capital.len() + 20);
    assert!(problem.starts_with(&begins[..same]) || problem.starts_with(&format!("{message}.")), "{problem}");
    assert!(problem.ends_with(refused.hint().unwrap_or_default()), "{problem}");
    assert_eq!(value(&mut client, "SELECT can_issue FROM snowflake_metrics"), "0");
}

#[test]
fn the_problem_is_the_error_that_the_next_call_will_get() {
    let must_preload = "snowflake_pg must be loaded via shared_preload_libraries to issue IDs";
    assert_problem(&Cluster::builder().start(), "not preloaded", must_preload);
    assert_problem(&builder().worker("").start(), "worker unset", "this server has no worker ID");
    assert_problem(&builder().worker(5000).start(), "misconfigured", "snowflake_pg.worker_id does not fit the layout");
    let future = "t41 w10 s12 epoch=2060-01-01T00:00:00Z";
    let outside = builder().set("snowflake_pg.layout", future).start();
    assert_problem(&outside, "outside the layout", "the server's clock is before the epoch of the layout");
}

#[test]
fn a_mark_that_cannot_be_read_is_the_problem_of_a_server_that_has_not_started() {
    let mut cluster = builder().start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    std::fs::write(cluster.mark_file(), "not a mark").expect("own file");
    cluster.start();
    cluster.wait_until("SELECT problem_sqlstate IS NOT NULL FROM snowflake_status");
    let message = error(&mut cluster.connect(), "SELECT snowflake_nextval()").message().to_owned();
    assert_problem(&cluster, "not started", &message);
}

/// Without a mark, the server waits for its clock first.
#[test]
fn a_mark_that_cannot_be_written_is_the_problem_once_the_start_margin_has_passed() {
    let mut cluster = builder().set("snowflake_pg.max_first_wait", "1s").faulty_disk().create();
    cluster.disk().obey(Order::FailFileFlush);
    cluster.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster.wait_until("SELECT problem_sqlstate = '58030' FROM snowflake_status");
    let message = error(&mut cluster.connect(), "SELECT snowflake_nextval()").message().to_owned();
    assert_problem(&cluster, "waiting", &message);
    cluster.disk().obey(Order::Work);
}

/// What a server is in whose clock or floor keeps calls from IDs, and what the next call does.
fn assert_clock_behind(cluster: &Cluster) {
    let mut client = cluster.connect();
    assert_problem(cluster, "clock behind", error(&mut client, "SELECT snowflake_nextval()").message());
    let until = status(cluster, "substring(problem FROM 'reaches ([^ ,]*Z)')");
    assert_eq!(value(&mut client, &format!("SELECT '{until}'::timestamptz > now()")), "t", "{until}");
}

#[test]
fn a_clock_that_keeps_calls_from_ids_is_the_state_whenever_it_went_back_and_no_longer() {
    for policy in ["borrow", "wait", "error"] {
        // The first call after a start may wait for twice as long.
        let builder = builder().own_clock().set("snowflake_pg.max_borrow", "200ms");
        let mut cluster = builder.set("snowflake_pg.clock_regression", policy).start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        // While it runs; while it is stopped; and after a crash.
        cluster.set_clock(-600.0);
        assert_clock_behind(&cluster);
        cluster.set_clock(0.0);
        assert_eq!(status(&cluster, "concat_ws(' ', state, problem)"), "ready", "{policy}");
        for how in [Signal::INT, Signal::KILL] {
            cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
            cluster.stop(how);
            cluster.set_clock(-600.0);
            cluster.start();
            cluster.wait_until("SELECT state <> 'not started' FROM snowflake_status");
            assert_clock_behind(&cluster);
            cluster.set_clock(0.0);
            assert_eq!(status(&cluster, "concat_ws(' ', state, problem)"), "idle", "{policy}");
        }
        cluster.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    }
}

#[test]
fn a_floor_in_the_future_is_the_state_until_the_clock_comes_near() {
    let cluster = builder().own_clock().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    client.batch_execute("SELECT snowflake_advance(snowflake_min_id(now() + interval '10 min'))").expect("a floor");
    assert_clock_behind(&cluster);
    // The clock itself, and not a call, ends it.
    cluster.set_clock(598.0);
    client.batch_execute("SELECT snowflake_accept_clock()").expect("a clock");
    assert_eq!(status(&cluster, "concat_ws(' ', state, problem)"), "ready");
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
}

/// What the document lists to which the comment of the column points.
#[test]
fn each_state_says_whether_the_next_call_gets_an_id() {
    let mut seen = Vec::new();
    let mut see = |cluster: &Cluster, state: &'static str| {
        let mut client = cluster.connect();
        assert_eq!(status(cluster, "state"), state);
        let can_issue = value(&mut client, "SELECT can_issue FROM snowflake_metrics") == "1";
        let problem = status(cluster, "problem");
        let call = client.batch_execute("SELECT snowflake_nextval()");
        // One that waits for its start margin gets its ID, later.
        let gets_one = call.is_ok() && state != "waiting";
        assert_eq!((can_issue, problem == "NULL"), (gets_one, gets_one), "{state}: {problem}, and {call:?}");
        seen.push(state);
    };
    let started = |builder: Builder| {
        let cluster = builder.start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
        cluster
    };
    let primary = started(builder().own_clock());
    primary.wait_until("SELECT state = 'idle' FROM snowflake_status");
    see(&primary, "idle");
    see(&primary, "ready");
    see(&Cluster::builder().own_clock().standby_of(&primary), "standby");
    let mut off = started(builder().set("snowflake_pg.wal_mark", "off"));
    off.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    see(&Cluster::builder().standby_of(&off), "shared worker");
    off.stop(Signal::INT);
    primary.set_clock(-600.0);
    see(&primary, "clock behind");
    see(&started(Cluster::builder()), "not preloaded");
    see(&started(builder().worker("")), "worker unset");
    see(&started(builder().worker(5000)), "misconfigured");
    see(&started(builder().set("snowflake_pg.layout", "t41 w10 s12 epoch=2060-01-01T00:00:00Z")), "outside the layout");
    see(&started(builder().worker("registry").set("snowflake_pg.registry_conninfo", "host=/nowhere")), "no lease");
    let mut damaged = started(builder());
    damaged.connect().batch_execute("SELECT snowflake_nextval()").expect("an ID");
    damaged.stop(Signal::INT);
    std::fs::write(damaged.mark_file(), "not a mark").expect("own file");
    damaged.start();
    damaged.wait_until("SELECT problem IS NOT NULL FROM snowflake_status");
    see(&damaged, "not started");
    see(&started(builder().set("snowflake_pg.max_first_wait", "5s")), "waiting");

    let document = "docs/operations.md";
    let comment = value(&mut primary.connect(), "SELECT col_description('snowflake_status'::regclass, 1)");
    assert!(comment.contains(document), "{comment}");
    let text = std::fs::read_to_string(project().join(document)).expect("a document");
    let (_, section) = text.split_once("\n## States\n").expect("a section");
    let table = section.lines().take_while(|line| !line.starts_with("## "));
    let mut listed: Vec<_> = table.filter_map(|line| Some(line.strip_prefix("| `")?.split_once("` |")?.0)).collect();
    listed.retain(|&state| state != "state");
    listed.sort_unstable();
    seen.sort_unstable();
    assert_eq!(seen, listed);
}

#[test]
fn nothing_is_wrong_with_a_server_that_issues_ids() {
    let cluster = builder().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    assert_eq!(status(&cluster, "concat_ws(' ', state, problem_sqlstate, problem, last_refusal)"), "ready");
    assert_eq!(value(&mut client, "SELECT can_issue FROM snowflake_metrics"), "1");
    assert_eq!(status(&cluster, "library_version = extension_version"), "t");
    assert_eq!(value(&mut client, "SELECT versions_differ FROM snowflake_metrics"), "0");
    let keeper = "keeper_pid = (SELECT pid FROM pg_stat_activity WHERE backend_type = 'snowflake_pg keeper')";
    assert_eq!(status(&cluster, keeper), "t");
}

#[test]
fn a_disk_that_fails_shows_while_ids_go_on_and_no_longer_than_it_fails() {
    let cluster = builder().faulty_disk().set("snowflake_pg.keep_warm", "1d").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.disk().obey(Order::Full);
    cluster.wait_until("SELECT problem_sqlstate = '53100' FROM snowflake_status");
    assert!(status(&cluster, "problem").starts_with("Could not write file"), "{}", status(&cluster, "problem"));
    client.batch_execute("CREATE ROLE app; SET ROLE app").expect("a role");
    assert_eq!(value(&mut client, "SELECT problem FROM snowflake_status"), "NULL");
    assert_eq!(value(&mut client, "SELECT problem_sqlstate FROM snowflake_status"), "53100");
    client.batch_execute("RESET ROLE").expect("a superuser");
    cluster.wait_until("SELECT can_issue = 0 FROM snowflake_metrics");
    assert_eq!(error(&mut client, "SELECT snowflake_nextval()").code().code(), "53100");
    cluster.disk().obey(Order::Work);
    cluster.wait_until("SELECT problem_sqlstate IS NULL AND problem IS NULL FROM snowflake_status");
}

/// The mark then is in the state file only, and IDs go on unless WAL is required.
#[test]
fn a_mark_that_does_not_reach_wal_is_a_problem_until_it_does() {
    let mut cluster = builder().start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    let good = std::fs::read(cluster.wal_page_file()).expect("a page");
    cluster.write_wal_page(b"of another library");
    cluster.start();
    cluster.wait_until("SELECT snowflake_nextval() > 0");
    assert_eq!(status(&cluster, "problem_sqlstate"), "XX001");
    assert!(
        status(&cluster, "problem").starts_with("File \"global/16111\" does not contain durable marks."),
        "{}",
        status(&cluster, "problem")
    );
    assert_eq!(status(&cluster, "state"), "ready");
    assert_eq!(value(&mut cluster.connect(), "SELECT can_issue FROM snowflake_metrics"), "1");
    cluster.configure("snowflake_pg.wal_mark", "require");
    cluster.restart(Signal::INT);
    let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "XX001", "{refused:?}");
    cluster.stop(Signal::INT);
    std::fs::write(cluster.wal_page_file(), good).expect("the page");
    cluster.start();
    cluster.wait_until("SELECT snowflake_nextval() > 0");
    assert_eq!(status(&cluster, "problem_sqlstate"), "NULL");
}

/// PostgreSQL shows a page with a wrong checksum as zeros, which would be one without marks.
#[test]
fn a_damaged_page_of_marks_is_a_problem_with_and_without_checksums() {
    for builder in [builder(), builder().checksums()] {
        let mut cluster = builder.set("snowflake_pg.wal_mark", "require").start();
        cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
        cluster.stop(Signal::INT);
        let mut page = std::fs::read(cluster.wal_page_file()).expect("a page");
        page[40] ^= 1;
        std::fs::write(cluster.wal_page_file(), page).expect("a page");
        // Without its mark, the server would have to begin at the one in WAL.
        std::fs::remove_dir_all(cluster.data().join("snowflake_pg")).expect("the state directory");
        cluster.start();
        let refused = error(&mut cluster.connect(), "SELECT snowflake_nextval()");
        assert_eq!(refused.code().code(), "XX001", "{refused:?}");
        assert_eq!(status(&cluster, "problem_sqlstate"), "XX001");
        std::fs::remove_file(cluster.wal_page_file()).expect("the page");
        cluster.restart(Signal::INT);
        cluster.connect().batch_execute("SELECT snowflake_accept_mark(), snowflake_nextval()").expect("an ID");
    }
}

/// At the start of the primary, and not at a failover.
#[test]
fn a_mark_in_wal_that_no_server_can_have_written_is_a_problem() {
    let mut cluster = Builder::worker(builder(), 1).start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.stop(Signal::INT);
    cluster.set_mark_in_wal(testbed::real_time() + 2 * 3_600_000);
    cluster.start();
    // Its own record does not go along with that, and it issues nothing before.
    cluster.wait_until("SELECT problem_sqlstate IS NOT NULL AND state = 'clock behind' FROM snowflake_status");
    let problem = status(&cluster, "problem");
    assert!(problem.contains("too far behind"), "{problem}");
}

#[test]
fn a_server_without_its_background_worker_says_so() {
    let cluster = builder().set("max_worker_processes", 0).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    assert_eq!(status(&cluster, "state"), "ready");
    assert_eq!(status(&cluster, "keeper_pid"), "NULL");
    assert_eq!(value(&mut client, "SELECT keeper_running FROM snowflake_metrics"), "0");
}

#[test]
fn the_last_refusal_is_the_error_that_a_client_got() {
    let cluster = builder().own_clock().set("snowflake_pg.clock_regression", "error").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    cluster.set_clock(-60.0);
    let refused = error(&mut client, "SELECT snowflake_nextblock(10)");
    assert_eq!(status(&cluster, "last_refusal_sqlstate"), refused.code().code());
    let last = status(&cluster, "last_refusal");
    assert!(last.starts_with("The server's clock has gone back. The clock shows "), "{last}");
    assert!(last.ends_with(refused.hint().expect("a hint")), "{last}");
    let recent = "last_refusal_at BETWEEN clock_timestamp() - interval '1 min' AND clock_timestamp()";
    assert_eq!(status(&cluster, recent), "t");
    // A count that is wrong is no refusal.
    cluster.set_clock(0.0);
    client.batch_execute("SELECT snowflake_reset_stats()").expect("a reset");
    assert_eq!(error(&mut client, "SELECT snowflake_nextvals(0)").code().code(), "22023");
    assert_eq!(status(&cluster, "concat_ws(' ', refusals, last_refusal, last_refusal_at)"), "0");
}

#[test]
fn the_busiest_second_is_a_part_of_what_the_layout_has() {
    let cluster = builder().set("snowflake_pg.layout", "t41 w10 s8 epoch=2020-01-01T00:00:00Z").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    assert_eq!(status(&cluster, "max_ids_per_second"), "256000");
    // Two seconds of full ticks have one whole second.
    client.batch_execute("SELECT count(*) FROM snowflake_nextvals(512000)").expect("IDs");
    let share: f64 =
        value(&mut client, "SELECT busiest_second_ratio FROM snowflake_metrics").parse().expect("a number");
    assert!(share > 0.5 && share <= 1.0, "{share}");
    client.batch_execute("SELECT snowflake_reset_stats()").expect("a reset");
    client.batch_execute("SELECT count(*) FROM snowflake_nextvals(100)").expect("IDs");
    let busiest: i64 = status(&cluster, "busiest_second_ids").parse().expect("a number");
    assert!((50..=100).contains(&busiest), "{busiest}");
}

#[test]
fn how_much_is_left_of_the_mark_is_known_while_ids_are_issued() {
    let cluster = builder().set("snowflake_pg.keep_warm", "1s").start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()").expect("an ID");
    let load = Load::start(&cluster, 2, "SELECT snowflake_nextval() FROM generate_series(1, 100)");
    load.wait_for_ids();
    let left: f64 = value(&mut client, "SELECT mark_left_seconds FROM snowflake_metrics").parse().expect("a number");
    assert!(left > 0.0 && left < 60.0, "{left}");
    load.finish();
    cluster.wait_until("SELECT mark_left_seconds IS NULL FROM snowflake_metrics");
}

/// Exporters drop everything else without an error.
#[test]
fn all_metrics_are_numbers_and_have_the_values_of_the_status() {
    let cluster = builder().own_clock().start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextvals(10000)").expect("IDs");
    cluster.set_clock(-0.5);
    client.batch_execute("SELECT snowflake_nextval()").expect("an ID");
    let columns = client.prepare("SELECT * FROM snowflake_metrics").expect("a view");
    for column in columns.columns() {
        let is_number = [Type::INT8, Type::FLOAT8].contains(column.type_());
        assert!(is_number, "{} is of type {}", column.name(), column.type_());
    }
    for (metric, column) in [
        ("worker_id", "worker_id"),
        ("datacenter_id", "coalesce(datacenter_id, 0)"),
        ("ids_issued_total", "ids_issued"),
        ("clock_regressions_total", "clock_regressions"),
        ("borrowed_ids_total", "borrowed_ids"),
        ("to_timestamp(durable_mark_timestamp_seconds) - '1970-01-01Z'", "durable_mark - '1970-01-01Z'"),
        ("largest_regression_seconds * interval '1 s'", "largest_regression"),
        ("clock_wait_seconds_total * interval '1 s'", "clock_wait_time"),
        ("round(layout_left_seconds / 31556952)", "round(extract(year FROM usable_until) - extract(year FROM now()))"),
    ] {
        // The mark goes on meanwhile.
        cluster.wait_until(&format!(
            "SELECT (SELECT {metric} FROM snowflake_metrics)::text IS NOT DISTINCT FROM (SELECT {column} FROM snowflake_status)::text"
        ));
    }
}
