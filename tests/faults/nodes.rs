//! What the rows with more than one server have in common.

use super::suite::Evidence;
use snowflake_core::UnixMs;
use snowflake_core::id::layout::Layout;
use std::thread::sleep;
use std::time::Duration;
use testbed::{Builder, Cluster, Load, Report, Volume, default_layout, error, issued_at, real_time};

/// What clients ask for.
pub const IDS: &str = "SELECT snowflake_nextval() FROM generate_series(1, 100)";

/// snowflake_pg.max_borrow: how far the timestamp of an ID may be ahead of the clock.
const MAX_BORROW_MS: i64 = 5000;

/// How long a server waits that may be another one's successor: reserve_ahead, 2 s.
/// It begins further above the clock than that, by max_borrow.
pub const START_MARGIN_MS: UnixMs = 2000;

/// The parameter with the path of the state directory.
pub const STATE_DIRECTORY: &str = "snowflake_pg.state_directory";

/// What the server log has where another server, or a later state of this one, has written to the state directory.
pub const NEWER: &str = "WARNING:  snowflake_pg: durable mark found that is newer than the data directory";

/// A server whose state directory is on a volume.
pub fn outside(volume: &Volume) -> Builder {
    Cluster::builder().worker(1).set(STATE_DIRECTORY, volume.make_directory("state").display())
}

/// Starts a server, and creates the extension.
pub fn start(server: Builder) -> Cluster {
    let cluster = server.start();
    cluster.connect().batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    cluster
}

/// Ends every process of a server without a word to any, and starts it again: then it is ahead of its clock.
pub fn crash(cluster: &mut Cluster) {
    cluster.kill_all();
    cluster.start();
}

/// IDs as two clients receive them at the same time.
pub fn some_ids(cluster: &Cluster) -> Report {
    let load = Load::start(cluster, 2, IDS);
    load.wait_for_ids();
    load.finish()
}

/// IDs from a server that has no reason to refuse.
pub fn some_ids_without_errors(cluster: &Cluster) -> Report {
    let report = some_ids(cluster);
    assert_only_errors(&report, &[]);
    report
}

/// IDs of a server that may have to wait for its start margin before.
pub fn ids_after_start_margin(server: &Cluster) -> Report {
    let ids = some_ids(server);
    assert_only_errors(&ids, &["53400"]);
    ids
}

/// Every way to ask for an ID is refused with 55000, for a reason that contains a word.
pub fn assert_refused(cluster: &Cluster, word: &str) {
    let mut client = cluster.connect();
    let insert = "CREATE TEMPORARY TABLE refused (id bigint DEFAULT snowflake_nextval())";
    client.batch_execute(insert).expect("a table");
    for query in ["SELECT snowflake_nextval()", "SELECT snowflake_nextvals(5)", "INSERT INTO refused DEFAULT VALUES"] {
        let refused = error(&mut client, query);
        assert_eq!(refused.code().code(), "55000", "{query}: {refused:?}");
        assert!(refused.message().contains(word), "{query}: {refused:?}");
        assert!(refused.hint().is_some(), "{query}: {refused:?}");
    }
}

/// Clients have seen errors of these kinds alone, by SQLSTATE.
pub fn assert_only_errors(report: &Report, codes: &[&str]) {
    let errors = report.errors();
    let expected = |error: &&str| codes.iter().any(|code| error.starts_with(code));
    assert!(errors.keys().all(expected), "{errors:?}");
}

/// Every ID of one report is greater than every ID of another.
pub fn assert_above(new: &Report, old: &Report) {
    let (lowest, _) = new.range().expect("new IDs");
    let (_, highest) = old.range().expect("old IDs");
    let [below, above] = [highest, lowest].map(issued_at);
    assert!(lowest > highest, "{lowest} of {above} is not above {highest} of {below}");
}

/// How far an ID was ahead of its server's clock, at most. Never more than the configuration allows.
pub fn lead_ms(report: &Report, clock_offset_ms: i64) -> i64 {
    lead_ms_in(&default_layout(), report, clock_offset_ms)
}

/// How far an ID was ahead, in a layout of its own.
pub fn lead_ms_in(layout: &Layout, report: &Report, clock_offset_ms: i64) -> i64 {
    let lead = report.largest_lead_ms(layout, clock_offset_ms);
    assert!(lead <= MAX_BORROW_MS, "{lead} ms ahead of the clock");
    lead
}

/// How a server comes to issue IDs for a moment that are [`AHEAD_MS`] ahead of its clock.
#[derive(Clone, Copy, Debug)]
pub enum Ahead {
    /// Its clock is set ahead, and right again. It is a clock of its own.
    Clock,
    /// By snowflake_advance(), while max_borrow allows as much.
    Advance,
}

/// One in each round.
pub const FAR_AHEAD: [Ahead; 2] = [Ahead::Clock, Ahead::Advance];

/// So far ahead that the server refuses to go on afterwards, and that the tests have time to do something meanwhile.
pub const AHEAD_MS: UnixMs = 20_000;

/// Lets a server under load be far ahead of its clock for a moment. What clients have received; none receives any more.
pub fn run_ahead(server: &Cluster, how: Ahead) -> Report {
    let load = Load::start(server, 2, IDS);
    load.wait_for_ids();
    match how {
        Ahead::Clock => server.set_clock(20.0),
        Ahead::Advance => {
            set_max_borrow(server, "1min");
            let past = "SELECT snowflake_advance(snowflake_min_id(clock_timestamp() + '20 s'))";
            server.connect().batch_execute(past).expect("an advance");
        }
    }
    sleep(Duration::from_secs(1));
    load.wait_for_ids();
    match how {
        Ahead::Clock => server.set_clock(0.0),
        Ahead::Advance => set_max_borrow(server, "5s"),
    }
    let ids = load.finish();
    assert_only_errors(&ids, &["53400"]);
    assert!(last_time(&ids) > real_time() + AHEAD_MS / 2, "the server was not ahead of its clock");
    let refused = error(&mut server.connect(), "SELECT snowflake_nextval()");
    assert_eq!(refused.code().code(), "53400", "{refused:?}");
    ids
}

fn set_max_borrow(server: &Cluster, time: &str) {
    server.configure("snowflake_pg.max_borrow", time);
    server.reload();
}

/// The last time in these IDs.
pub fn last_time(report: &Report) -> UnixMs {
    issued_at(report.range().expect("IDs").1)
}

/// What clients receive of a server until its clock has passed all times of these IDs, and a while longer.
pub fn ids_until_past(server: &Cluster, used: &Report) -> Report {
    let load = Load::start(server, 2, IDS);
    sleep(Duration::from_millis((last_time(used) + 1000).saturating_sub(real_time())));
    load.wait_for_ids();
    load.finish()
}

/// Shows what was received, here and there, and then asserts that no ID came twice.
pub fn assert_unique(what: &str, reports: &[&Report]) {
    let mut ids: Vec<_> = reports.iter().flat_map(|report| report.received()).collect();
    ids.sort();
    let duplicates = ids.windows(2).filter(|pair| pair[0] == pair[1]).count();
    let each: Vec<_> = reports.iter().map(|report| (report.ids(), report.errors())).collect();
    println!("{what}: {duplicates} duplicates of {} IDs; IDs and errors of each: {each:?}", ids.len());
    assert_eq!(duplicates, 0, "{what}: duplicates of {} IDs", ids.len());
}

/// What was received of one worker before and after something, once it is shown and asserted that no ID came twice, and
/// that every one after it is greater than every one before.
pub fn together_above(what: &str, mut before: Report, after: Report) -> Report {
    assert_unique(what, &[&before, &after]);
    assert_above(&after, &before);
    before.merge(after);
    before
}

/// The evidence of rounds with servers of their own, which have the same worker and know nothing of each other: each
/// round begins when the clock has passed what was issued before.
pub fn in_separate_rounds(rounds: usize, round: impl Fn(usize) -> Report) -> Evidence {
    let mut all = Report::default();
    for number in 0..rounds {
        if all.ids() > 0 {
            sleep(Duration::from_millis((last_time(&all) + 1).saturating_sub(real_time())));
        }
        all.merge(round(number));
    }
    all.assert_unique_and_ordered();
    Evidence::new(rounds, &all)
}
