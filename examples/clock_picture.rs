//! Draws docs/clock.svg: the timestamps of IDs through a step of the clock, for each `snowflake_pg.clock_regression`.
//!
//! Four servers, each with a clock of its own that is set back for a while, and a client each that asks for an ID every
//! 20 ms. What is drawn is what they have answered.
//!
//! Run with `make clock-picture`.

use snowflake_core::layout::Layout;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::panic::resume_unwind;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};
use testbed::{Cluster, Witness, real_time};

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
    id: i64,
}

fn main() -> Result<()> {
    println!("==> Taking IDs from a server for each policy, through a step of {STEP} s (about 10 s)");
    let observed: Vec<Result<Vec<Call>>> = thread::scope(|scope| {
        let servers = POLICIES.map(|policy| scope.spawn(move || observe(policy)));
        servers.into_iter().map(|server| server.join().unwrap_or_else(|panic| resume_unwind(panic))).collect()
    });
    let mut panels = String::new();
    for (number, (policy, calls)) in (0_u8..).zip(POLICIES.iter().zip(observed)) {
        let calls = calls?;
        println!("{policy:<8} {}", summary(&calls));
        panel(&mut panels, policy, &calls, (f64::from(number % 2), f64::from(number / 2)))?;
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/clock.svg");
    fs::write(path, picture(&panels)?)?;
    println!("==> Drawn: docs/clock.svg");
    Ok(())
}

/// Takes IDs from a new server of this policy, while its clock is stepped.
fn observe(policy: &str) -> Result<Vec<Call>> {
    let layout: Layout = "twitter".parse()?;
    let settings =
        [("clock_regression", policy), ("max_wait", "5s"), ("reserve_ahead", "500ms"), ("start_margin", "0")];
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
            let timestamp = |id: i64| {
                let ms = layout.issued_at(id.cast_unsigned()).cast_signed() - began_at.cast_signed();
                Ok::<_, Box<dyn Error + Send + Sync>>(f64::from(i32::try_from(ms)?) / 1000.0)
            };
            let issued_at = id.as_ref().ok().copied().map(timestamp).transpose()?;
            calls.push(Call { asked, answered, timestamp: issued_at, id: id.unwrap_or_default() });
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
    let mut highest = 0;
    let mut lower = 0;
    for (call, _) in issued() {
        lower += usize::from(call.id < highest);
        highest = highest.max(call.id);
    }
    format!("{lead:.1} s ahead, longest call {longest:.1} s, {refused} refused, {lower} out of order")
}

// Where things are on the picture, in pixels.
const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 530.0;
const PANEL: (f64, f64) = (350.0, 150.0);
const FIRST: (f64, f64) = (70.0, 96.0);
const EACH: (f64, f64) = (420.0, 226.0);
/// Seconds at the lower and the upper edge of a panel.
const RANGE: (f64, f64) = (-2.0, 0.5);

fn panel(svg: &mut String, policy: &str, calls: &[Call], (column, row): (f64, f64)) -> Result<()> {
    let (left, top) = (FIRST.0 + column * EACH.0, FIRST.1 + row * EACH.1);
    let x = |seconds: f64| left + seconds / END * PANEL.0;
    let y = |seconds: f64| top + (RANGE.1 - seconds) / (RANGE.1 - RANGE.0) * PANEL.1;
    let bottom = top + PANEL.1;
    writeln!(svg, r#"<text x="{left}" y="{:.0}" class="name">{policy}</text>"#, top - 24.0)?;
    writeln!(svg, r#"<text x="{left}" y="{:.0}">{}</text>"#, top - 8.0, summary(calls))?;

    let mut grid = String::new();
    for seconds in [-2.0, -1.5, -1.0, -0.5, 0.0, 0.5] {
        write!(grid, "M{left} {:.1}h{} ", y(seconds), PANEL.0)?;
        writeln!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" class="end">{}</text>"#,
            left - 7.0,
            y(seconds) + 4.0,
            format!("{seconds:+.1}").replace('-', "−").replace("+0.0", "0")
        )?;
    }
    for seconds in [0.0, 2.0, 4.0, 6.0, 8.0] {
        write!(grid, "M{:.1} {top}v{} ", x(seconds), PANEL.1)?;
        let label = format!("{seconds:.0}");
        writeln!(svg, r#"<text x="{:.1}" y="{:.1}" class="middle">{label}</text>"#, x(seconds), bottom + 16.0)?;
    }
    writeln!(svg, r#"<path class="grid" d="{}"/>"#, grid.trim_end())?;
    let clock_line = [(0.0, 0.0), (STEPPED_AT, 0.0), (STEPPED_AT, STEP), (RIGHT_AT, STEP), (RIGHT_AT, 0.0), (END, 0.0)];
    let points: Vec<_> = clock_line.iter().map(|&(at, off)| format!("{:.1},{:.1}", x(at), y(off))).collect();
    writeln!(svg, r#"<polyline class="clock" points="{}"/>"#, points.join(" "))?;

    let (mut ids, mut refused, mut waits) = (String::new(), String::new(), String::new());
    for (number, call) in calls.iter().enumerate().filter(|(_, call)| call.answered <= END) {
        let Some(timestamp) = call.timestamp else {
            if number.is_multiple_of(4) {
                write!(refused, "M{:.1} {:.1}v12", x(call.answered), y(clock(call.answered)) - 6.0)?;
            }
            continue;
        };
        let off = timestamp - call.answered;
        write!(ids, "M{:.1} {:.1}h0", x(call.answered), y(off))?;
        if call.answered - call.asked > WAITS {
            // Above the line of the clock.
            write!(waits, "M{:.1} {:.1}H{:.1}", x(call.asked), y(off) - 7.0, x(call.answered))?;
        }
    }
    for (class, path) in [("waits", waits), ("refused", refused), ("ids", ids)] {
        if !path.is_empty() {
            writeln!(svg, r#"<path class="{class}" d="{path}"/>"#)?;
        }
    }
    Ok(())
}

fn picture(panels: &str) -> Result<String> {
    let mut svg = String::new();
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img">
<title>Timestamps of IDs through a step of the clock</title>
<desc>Drawn by make clock-picture. Four panels, one for each clock_regression: what IDs' timestamps differ from the right time.</desc>
<style>
text {{ font: 12px system-ui, sans-serif; fill: #333 }}
.name {{ font: 600 15px ui-monospace, monospace; fill: #111 }}
.end {{ text-anchor: end }}
.middle {{ text-anchor: middle }}
.paper {{ fill: #fff }}
.grid {{ stroke: #e2e2e2; fill: none }}
.clock {{ stroke: #888; stroke-width: 2; fill: none }}
.ids {{ stroke: #0072b2; stroke-width: 4; stroke-linecap: round; fill: none }}
.waits {{ stroke: #0072b2; stroke-width: 2; stroke-dasharray: 5 4; fill: none }}
.refused {{ stroke: #d55e00; stroke-width: 1.5; fill: none }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #ccc }}
.name {{ fill: #fff }}
.paper {{ fill: #0d1117 }}
.grid {{ stroke: #2b3138 }}
.clock {{ stroke: #999 }}
.ids, .waits {{ stroke: #56b4e9 }}
.refused {{ stroke: #e69f00 }}
}}
</style>
<rect class="paper" width="100%" height="100%"/>"##
    )?;
    // The legend.
    let legend = [
        ("ids", "h0", 44.0, "an ID, when it was received"),
        ("clock", "h24", 236.0, "the server's clock"),
        ("waits", "h24", 404.0, "a call that waits"),
        ("refused", "m0-6v12m6-12v12m6-12v12", 560.0, "refused calls (one in four)"),
    ];
    for (class, path, from, label) in legend {
        let (x, y) = (FIRST.0 - 40.0 + from, 28.0);
        writeln!(svg, r#"<path class="{class}" d="M{x} {y}{path}"/>"#)?;
        let after = if class == "ids" { 12.0 } else { 32.0 };
        writeln!(svg, r#"<text x="{}" y="{}">{label}</text>"#, x + after, y + 4.0)?;
    }
    svg.push_str(panels);
    writeln!(
        svg,
        r#"<text x="{}" y="{}" class="middle">right time, in seconds</text>"#,
        (FIRST.0 + EACH.0 + PANEL.0 + FIRST.0) / 2.0,
        HEIGHT - 14.0
    )?;
    let middle = FIRST.1 + (EACH.1 + PANEL.1) / 2.0;
    writeln!(
        svg,
        r#"<text transform="translate(18 {middle}) rotate(-90)" class="middle">timestamp less right time, in seconds</text>"#
    )?;
    svg.push_str("</svg>\n");
    Ok(svg)
}
