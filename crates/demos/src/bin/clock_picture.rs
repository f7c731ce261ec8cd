//! Draws docs/clock.svg: the timestamps of IDs through a step of the clock, for each `snowflake_pg.clock_regression`.
//!
//! Four servers, each with a clock of its own that is set back for a while, and a client each that asks for an ID every
//! 20 ms. What is drawn is what they have answered.
//!
//! Run with `make picture NAME=clock`.

use pictures::{Axis, Picture};
use snowflake_core::id::layout::Layout;
use std::error::Error;
use std::fs;
use std::panic::resume_unwind;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::{Cluster, Witness, project, real_time};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const POLICIES: [&str; 4] = ["borrow", "wait", "error", "history"];

/// The clock is set back at the first of these times, and right again at the second. All in seconds.
const STEP: f64 = -1.5;
const STEPPED_AT: f64 = 2.0;
const RIGHT_AT: f64 = 6.0;
const END: f64 = 8.0;

const PACE: Duration = Duration::from_millis(20);

/// A call that takes longer than this is drawn as one that waits, in seconds.
const WAITS: f64 = 0.1;

/// An answer. All times in seconds since the beginning, by a clock that is right.
struct Call {
    asked: f64,
    answered: f64,
    /// The ID's timestamp; `None` if it was refused.
    timestamp: Option<f64>,
}

fn main() -> Result<()> {
    println!("==> Taking IDs from a server for each policy, through a step of {STEP} s (about 10 s)");
    let observed: Vec<Result<Vec<Call>>> = thread::scope(|scope| {
        let servers = POLICIES.map(|policy| scope.spawn(move || observe(policy)));
        servers.into_iter().map(|server| server.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut picture = Picture::new(WIDTH);
    let legend = [
        ("dots c0", "an ID, when it was received"),
        ("line c6", "the server's clock"),
        ("dashes c0", "a call that waits"),
        ("strokes c1", "refused calls (one in four)"),
    ];
    picture.legend("", legend, (FIRST.0, 20.0), WIDTH);
    for (number, (policy, calls)) in (0_u8..).zip(POLICIES.iter().zip(observed)) {
        let calls = calls?;
        println!("{policy:<8} {}", summary(&calls));
        let (column, row) = (f64::from(number % 2), f64::from(number / 2));
        panel(&mut picture, policy, &calls, (FIRST.0 + column * EACH.0, FIRST.1 + row * EACH.1));
    }
    let (right, bottom) = (FIRST.0 + EACH.0 + PANEL.0, FIRST.1 + EACH.1 + PANEL.1);
    picture.text("middle", (f64::midpoint(FIRST.0, right), bottom + 44.0), "right time, in seconds");
    picture.upward_text((18.0, f64::midpoint(FIRST.1, bottom)), "timestamp less right time, in seconds");
    let drawn =
        picture.finish(bottom + 58.0, "Timestamps of IDs through a step of the clock", "make picture NAME=clock");
    fs::write(project().join("docs/clock.svg"), drawn)?;
    println!("==> Drawn: docs/clock.svg");
    Ok(())
}

/// Takes IDs from a new server of this policy, while its clock is stepped.
fn observe(policy: &str) -> Result<Vec<Call>> {
    let layout: Layout = "flat".parse()?;
    let settings =
        [("clock_regression", policy), ("max_wait", "5s"), ("reserve_ahead", "500ms"), ("max_first_wait", "0")];
    let builder = Cluster::builder().worker(0).own_clock();
    let server =
        settings.iter().fold(builder, |b, (name, value)| b.set(&format!("snowflake_pg.{name}"), value)).start();
    let mut client = Witness::of(&server);
    client.session().batch_execute("CREATE EXTENSION snowflake_pg; SELECT snowflake_nextval()")?;
    // Of the past as much as the history remembers.
    for _ in 0..150 {
        client.session().batch_execute("SELECT snowflake_nextval()")?;
        sleep(PACE);
    }

    let (began, began_at) = (Instant::now(), real_time());
    thread::scope(|scope| {
        scope.spawn(|| {
            for (at, offset) in [(STEPPED_AT, STEP), (RIGHT_AT, 0.0)] {
                sleep(Duration::from_secs_f64(at).saturating_sub(began.elapsed()));
                server.set_clock(offset);
            }
        });
        let mut calls = Vec::new();
        let mut next = began;
        while began.elapsed().as_secs_f64() < END {
            next = (next + PACE).max(Instant::now());
            sleep(next.saturating_duration_since(Instant::now()));
            let asked = began.elapsed().as_secs_f64();
            let id = client.next_id();
            let answered = began.elapsed().as_secs_f64();
            let seconds = |ms| Duration::from_millis(ms).as_secs_f64();
            let timestamp = |id: i64| seconds(layout.issued_at(id.cast_unsigned())) - seconds(began_at);
            calls.push(Call { asked, answered, timestamp: id.ok().map(timestamp) });
        }
        Ok(calls)
    })
}

/// How far the clock was from the right time.
fn clock(at: f64) -> f64 {
    if (STEPPED_AT..RIGHT_AT).contains(&at) { STEP } else { 0.0 }
}

/// What a policy has cost, in a line.
fn summary(calls: &[Call]) -> String {
    let issued = || calls.iter().filter_map(|call| call.timestamp.map(|timestamp| (call, timestamp)));
    // Around a step, the clock may not have been set yet.
    let ahead = |call: &Call, at: f64| at - call.answered - clock(call.asked - WAITS).max(clock(call.answered));
    let lead = issued().map(|(call, at)| ahead(call, at)).fold(0.0, f64::max);
    let longest = calls.iter().map(|call| call.answered - call.asked).fold(0.0, f64::max);
    let refused = calls.len() - issued().count();
    let (mut lower, mut highest) = (0, 0.0);
    for (_, timestamp) in issued() {
        lower += usize::from(timestamp < highest);
        highest = timestamp.max(highest);
    }
    format!("{lead:.1} s ahead, longest call {longest:.1} s, {refused} refused, {lower} out of order")
}

// Where things are on the picture, in pixels.
const WIDTH: f64 = 860.0;
const PANEL: (f64, f64) = (350.0, 150.0);
const FIRST: (f64, f64) = (70.0, 96.0);
const EACH: (f64, f64) = (420.0, 226.0);

fn panel(picture: &mut Picture, policy: &str, calls: &[Call], (left, top): (f64, f64)) {
    let (right, bottom) = (left + PANEL.0, top + PANEL.1);
    let across = Axis::with_step(0.0, END, 2.0, (left, right));
    let up = Axis::with_step(-2.0, 0.5, 0.5, (bottom, top));
    picture.text("title code", (left, top - 24.0), policy);
    picture.text("", (left, top - 8.0), &summary(calls));
    let signed = |seconds: f64| format!("{seconds:+.1}").replace('-', "−").replace("+0.0", "0");
    picture.left_axis(&up, (left, right), signed);
    picture.bottom_axis(&across, (top, bottom), |seconds| seconds.to_string());

    let at = |seconds, off| (across.at(seconds), up.at(off));
    let clock_line = [(0.0, 0.0), (STEPPED_AT, 0.0), (STEPPED_AT, STEP), (RIGHT_AT, STEP), (RIGHT_AT, 0.0), (END, 0.0)];
    picture.curve("line c6", clock_line.map(|(seconds, off)| Some(at(seconds, off))));
    let calls = || calls.iter().filter(|call| call.answered <= END);
    let issued = || calls().filter_map(|call| Some((call, call.timestamp? - call.answered)));
    // Above the line of the clock.
    let waits = issued().filter(|(call, _)| call.answered - call.asked > WAITS);
    picture.segments("dashes c0", waits.map(|(call, off)| [call.asked, call.answered].map(|x| at(x, off + 0.12))));
    let refused = calls().filter(|call| call.timestamp.is_none()).step_by(4).map(|call| {
        let (x, y) = at(call.answered, clock(call.answered));
        [(x, y), (x + 1.5, y)]
    });
    picture.segments("strokes c1", refused);
    picture.segments("dots c0", issued().map(|(call, off)| [at(call.answered, off); 2]));
}
