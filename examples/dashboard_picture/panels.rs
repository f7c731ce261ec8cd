//! The panels of a dashboard, as SVG.

use crate::Result;
use serde_json::Value;
use std::fmt::Write;
use testbed::{Prometheus, with_all_chosen};

// Where things are on the picture, in pixels.
const CELL: (f64, f64) = (50.0, 27.0);
const COLUMNS: f64 = 24.0;
const GAP: f64 = 4.0;
/// The width of a character, to know what fits.
const CHARACTER: f64 = 5.6;

/// The end of the picture's time is when the numbers without a time are from. In Unix seconds.
pub struct Times {
    pub start: u64,
    pub end: u64,
}

/// A line of a panel.
struct Series {
    name: String,
    labels: Value,
    /// Seconds since the start, and values; none for times without one.
    points: Vec<(f64, Option<f64>)>,
}

/// The inside of a panel.
struct Frame {
    left: f64,
    top: f64,
    right: f64,
    bottom: f64,
}

/// The whole dashboard.
pub fn draw(dashboard: &Value, prometheus: &Prometheus, times: &Times) -> Result<String> {
    let (mut svg, mut height) = (String::new(), 0.0_f64);
    for panel in dashboard["panels"].as_array().ok_or("no panels")? {
        let place = |field: &str| panel["gridPos"][field].as_f64().ok_or("no place");
        let (x, y) = (place("x")? * CELL.0 + GAP, place("y")? * CELL.1 + GAP);
        let (w, h) = (place("w")? * CELL.0 - GAP, place("h")? * CELL.1 - GAP);
        height = height.max(y + h + GAP);
        writeln!(svg, r#"<rect class="panel" x="{x}" y="{y}" width="{w}" height="{h}" rx="2"/>"#)?;
        writeln!(svg, r#"<text class="title" x="{}" y="{}">{}</text>"#, x + 8.0, y + 17.0, escaped(&panel["title"]))?;
        let frame = Frame { left: x + 8.0, top: y + 26.0, right: x + w - 8.0, bottom: y + h - 8.0 };
        let series = ask(panel, prometheus, times)?;
        match panel["type"].as_str() {
            Some("stat") => stat(&mut svg, panel, &series, &frame)?,
            Some("timeseries") => lines(&mut svg, panel, &series, &frame, times)?,
            Some("state-timeline") => states(&mut svg, panel, &series, &frame, times)?,
            Some("table") => table(&mut svg, panel, &series, &frame)?,
            other => return Err(format!("a panel of type {other:?}").into()),
        }
    }
    let width = COLUMNS * CELL.0 + GAP;
    Ok(format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>The dashboard of a small fleet</title>
<desc>Drawn by make dashboard-picture from the queries of contrib/monitoring/dashboard.json. Grafana's own rendering differs.</desc>
<style>
text {{ font: 11px system-ui, sans-serif; fill: #444 }}
.title {{ font-size: 12px; font-weight: 600; fill: #111 }}
.stat {{ font-size: 34px; font-weight: 600; text-anchor: middle }}
.head {{ font-size: 10px; font-weight: 600 }} .cell {{ font-size: 10px }}
.end {{ text-anchor: end }} .middle {{ text-anchor: middle }}
.paper {{ fill: #f4f5f5 }} .panel {{ fill: #fff; stroke: #ddd }}
.grid {{ stroke: #e8e8e8; fill: none }}
.line {{ fill: none; stroke: currentColor; stroke-width: 1.4 }} .solid {{ fill: currentColor }}
.green {{ color: #1a7f37 }} .red {{ color: #cf222e }} .blue {{ color: #3274d9 }}
.c0 {{ color: #0072b2 }} .c1 {{ color: #d55e00 }} .c2 {{ color: #009e73 }} .c3 {{ color: #aa6f9e }}
.c4 {{ color: #b8860b }} .c5 {{ color: #56b4e9 }} .c6 {{ color: #777 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #bbb }} .title {{ fill: #fff }}
.paper {{ fill: #111217 }} .panel {{ fill: #181b1f; stroke: #2b3138 }} .grid {{ stroke: #2b3138 }}
}}
text.solid {{ fill: currentColor }}
</style>
<rect class="paper" width="100%" height="100%"/>
{svg}</svg>
"##
    ))
}

/// What Prometheus answers to the queries of a panel.
fn ask(panel: &Value, prometheus: &Prometheus, times: &Times) -> Result<Vec<Series>> {
    let mut all = Vec::new();
    let [start, end] = [times.start, times.end].map(|time| time.to_string());
    let step = (times.end - times.start).div_ceil(90).to_string();
    for target in panel["targets"].as_array().ok_or("no targets")? {
        let query = with_all_chosen(target["expr"].as_str().ok_or("no query")?);
        let answer = if target["instant"] == true {
            prometheus.api("query", &[("query", &query), ("time", &end)])
        } else {
            let range = [("query", query.as_str()), ("start", &start), ("end", &end), ("step", &step)];
            prometheus.api("query_range", &range)
        };
        let answer: Value = serde_json::from_str(&answer)?;
        for series in answer["data"]["result"].as_array().ok_or("no result")? {
            let labels = &series["metric"];
            let mut name = target["legendFormat"].as_str().unwrap_or_default().to_owned();
            for label in ["worker", "instance"] {
                name = name.replace(&format!("{{{{{label}}}}}"), labels[label].as_str().unwrap_or_default());
            }
            let one = [series["value"].clone()];
            let values = series["values"].as_array().map_or(&one[..], Vec::as_slice);
            let point = |value: &Value| {
                let (at, value) = (value[0].as_f64()?, value[1].as_str()?.parse::<f64>().ok()?);
                Some((at - seconds(times.start), value.is_finite().then_some(value)))
            };
            let points = values.iter().filter_map(point).collect();
            all.push(Series { name, labels: labels.clone(), points });
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

fn seconds(time: u64) -> f64 {
    f64::from(u32::try_from(time).unwrap_or(u32::MAX))
}

fn stat(svg: &mut String, panel: &Value, series: &[Series], frame: &Frame) -> Result<()> {
    let value = series.first().and_then(|series| series.points.last()?.1);
    let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array().ok_or("no thresholds")?;
    let reached = |step: &&Value| step["value"].as_f64().is_none_or(|least| value.is_some_and(|value| value >= least));
    let color = steps.iter().rfind(reached).and_then(|step| step["color"].as_str()).unwrap_or_default();
    let text = value.map_or_else(|| "No data".to_owned(), |value| format!("{value:.0}"));
    let (x, y) = (f64::midpoint(frame.left, frame.right), f64::midpoint(frame.top, frame.bottom) + 11.0);
    Ok(writeln!(svg, r#"<g class="{color}"><text class="stat solid" x="{x}" y="{y}">{text}</text></g>"#)?)
}

fn lines(svg: &mut String, panel: &Value, series: &[Series], frame: &Frame, times: &Times) -> Result<()> {
    let defaults = &panel["fieldConfig"]["defaults"];
    let unit = defaults["unit"].as_str().unwrap_or_default();
    let values = || series.iter().flat_map(|series| series.points.iter().filter_map(|point| point.1));
    let least = values().fold(defaults["min"].as_f64().unwrap_or(f64::INFINITY), f64::min);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = if least.is_finite() && most.is_finite() { (least, most) } else { (0.0, 1.0) };
    let (least, step) = scale(least, most.max(least + 1e-9));
    let most = least + step * (((most - least) / step).ceil()).max(1.0);

    let (left, right, top) = (frame.left + 50.0, frame.right, frame.top + 4.0);
    let bottom = legend(svg, series, frame)? - 30.0;
    let length = seconds(times.end) - seconds(times.start);
    let x = |at: f64| left + at / length * (right - left);
    let y = |value: f64| bottom - (value - least) / (most - least) * (bottom - top);
    let mut tick = least;
    while tick <= most + step / 2.0 {
        writeln!(svg, r#"<path class="grid" d="M{left} {:.0}H{right}"/>"#, y(tick))?;
        let label = with_unit(tick, unit);
        writeln!(svg, r#"<text class="end" x="{}" y="{:.0}">{label}</text>"#, left - 5.0, y(tick) + 4.0)?;
        tick += step;
    }
    let mut at = 60.0;
    while at <= length - 20.0 {
        let label = with_unit(at, "s");
        writeln!(svg, r#"<text class="middle" x="{:.0}" y="{}">{label}</text>"#, x(at), bottom + 14.0)?;
        at += 60.0;
    }
    for (nth, series) in series.iter().enumerate() {
        let (mut path, mut gap) = (String::new(), true);
        for (before, &(at, value)) in series.points.iter().enumerate() {
            let Some(value) = value else {
                gap = true;
                continue;
            };
            // Where nothing changes, the ends of a line are enough.
            let same = |other: usize| series.points.get(other).is_some_and(|other| other.1 == Some(value));
            if !gap && same(before.wrapping_sub(1)) && same(before + 1) {
                continue;
            }
            write!(path, "{}{:.0} {:.1}", if gap { 'M' } else { 'L' }, x(at), y(value))?;
            gap = false;
        }
        if !path.is_empty() {
            writeln!(svg, r#"<path class="line c{}" d="{path}"/>"#, nth % 7)?;
        }
    }
    Ok(())
}

/// Draws the names of the lines at the bottom of a panel, and returns where they begin.
fn legend(svg: &mut String, series: &[Series], frame: &Frame) -> Result<f64> {
    let width = |series: &Series| 24.0 + CHARACTER * f64::from(u16::try_from(series.name.len()).unwrap_or(u16::MAX));
    let mut rows: Vec<Vec<(f64, usize)>> = vec![Vec::new()];
    let mut x = frame.left;
    for (nth, series) in series.iter().enumerate() {
        if x + width(series) > frame.right && x > frame.left {
            rows.push(Vec::new());
            x = frame.left;
        }
        rows.last_mut().ok_or("no row")?.push((x, nth));
        x += width(series);
    }
    let mut y = frame.bottom;
    for row in rows.iter().rev() {
        for &(x, nth) in row {
            let color = nth % 7;
            writeln!(svg, r#"<rect class="solid c{color}" x="{x:.0}" y="{:.0}" width="10" height="3"/>"#, y - 5.0)?;
            let name = &series[nth].name;
            writeln!(svg, r#"<text x="{:.0}" y="{y:.0}">{name}</text>"#, x + 14.0)?;
        }
        y -= 14.0;
    }
    Ok(y + 14.0)
}

fn states(svg: &mut String, panel: &Value, series: &[Series], frame: &Frame, times: &Times) -> Result<()> {
    let options = &panel["fieldConfig"]["defaults"]["mappings"][0]["options"];
    let length = seconds(times.end) - seconds(times.start);
    let (left, mut y) = (frame.left + 70.0, frame.top);
    let x = |at: f64| left + at / length * (frame.right - left);
    for series in series {
        writeln!(svg, r#"<text class="end" x="{:.0}" y="{}">{}</text>"#, left - 6.0, y + 13.0, series.name)?;
        for (nth, &(at, value)) in series.points.iter().enumerate() {
            let Some(value) = value else { continue };
            let color = options[format!("{value:.0}")]["color"].as_str().ok_or("a state without a color")?;
            // The last value lasts as long as the one before it.
            let step = series.points.get(1).map_or(1.0, |second| second.0 - series.points[0].0);
            let next = series.points.get(nth + 1).map_or(at + step, |next| next.0.min(at + step));
            let (from, to) = (x(at), x(next.min(length)));
            writeln!(
                svg,
                r#"<rect class="solid {color}" x="{from:.1}" y="{y}" width="{:.1}" height="18"/>"#,
                to - from + 0.6
            )?;
        }
        y += 23.0;
    }
    Ok(())
}

fn table(svg: &mut String, panel: &Value, series: &[Series], frame: &Frame) -> Result<()> {
    let columns = panel["transformations"][0]["options"]["include"]["names"].as_array().ok_or("no columns")?;
    let columns: Vec<_> = columns.iter().filter_map(Value::as_str).collect();
    let cell = |series: &Series, column: &str| escaped(&series.labels[column]);
    let mut rows: Vec<Vec<String>> =
        series.iter().map(|series| columns.iter().map(|column| cell(series, column)).collect()).collect();
    rows.sort();
    rows.insert(0, columns.iter().map(|&column| column.to_owned()).collect());
    let widths: Vec<f64> = (0..columns.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .map(|longest| 14.0 + 5.6 * f64::from(u16::try_from(longest).unwrap_or(u16::MAX)))
        .collect();
    let mut y = frame.top + 12.0;
    for (nth, row) in rows.iter().enumerate() {
        let mut x = frame.left;
        for (cell, width) in row.iter().zip(&widths) {
            let class = if nth == 0 { "head" } else { "cell" };
            writeln!(svg, r#"<text class="{class}" x="{x:.0}" y="{y:.0}">{cell}</text>"#)?;
            x += width;
        }
        y += 19.0;
    }
    Ok(())
}

/// The lower end of an axis, and the distance of its ticks: of 1, 2 and 5, the one that makes about four.
fn scale(least: f64, most: f64) -> (f64, f64) {
    let rough = (most - least) / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|&step| step >= rough);
    let step = step.unwrap_or(power);
    ((least / step).floor() * step, step)
}

/// A value as Grafana writes it, more or less.
fn with_unit(value: f64, unit: &str) -> String {
    let trimmed = |value: f64, unit: &str| {
        let text = format!("{value:.2}");
        let text = text.trim_end_matches('0').trim_end_matches('.');
        format!("{}{unit}", if text == "-0" { "0" } else { text })
    };
    let size = value.abs();
    match unit {
        "percentunit" => trimmed(value * 100.0, "%"),
        "s" if size == 0.0 => "0 s".to_owned(),
        "s" if size < 0.001 => trimmed(value * 1e6, " µs"),
        "s" if size < 1.0 => trimmed(value * 1e3, " ms"),
        "s" if size < 60.0 => trimmed(value, " s"),
        "s" if size < 3600.0 => trimmed(value / 60.0, " min"),
        "s" if size < 31_556_952.0 => trimmed(value / 86_400.0, " days"),
        "s" => format!("{:.0} years", value / 31_556_952.0),
        _ if size >= 1e6 => trimmed(value / 1e6, " M"),
        _ if size >= 1e3 => trimmed(value / 1e3, " K"),
        _ => trimmed(value, ""),
    }
}

fn escaped(text: &Value) -> String {
    text.as_str().unwrap_or_default().replace('&', "&amp;").replace('<', "&lt;")
}
