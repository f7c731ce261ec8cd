//! The panels of a dashboard.

use crate::Result;
use bench_report::numbers::round;
use pictures::{Axis, Picture, Point, text_width};
use serde_json::Value;
use testbed::{Prometheus, with_all_chosen};

// Where things are on the picture, in pixels.
const CELL: (f64, f64) = (50.0, 27.0);
const WIDTH: f64 = 24.0 * CELL.0 + GAP;
const GAP: f64 = 4.0;

/// The end of the picture's time is when the numbers without a time are from. In Unix seconds.
pub struct Times {
    pub start: u32,
    pub end: u32,
}

impl Times {
    /// From one value of a series to the next, in seconds.
    fn step(&self) -> u32 {
        (self.end - self.start).div_ceil(90)
    }

    /// An axis for seconds since the start.
    fn axis(&self, pixels: (f64, f64)) -> Axis {
        Axis::with_step(0.0, f64::from(self.end - self.start), 60.0, pixels)
    }
}

/// A line of a panel.
struct Series {
    name: String,
    labels: Value,
    /// Seconds since the start, and values; none for times without one.
    points: Vec<(f64, Option<f64>)>,
}

/// The colors of lines.
const COLORS: [&str; 7] = ["c0", "c1", "c2", "c3", "c4", "c5", "c6"];

/// The inside of a panel: its top left and its bottom right.
type Frame = [Point; 2];

/// The whole dashboard.
pub fn draw(dashboard: &Value, prometheus: &Prometheus, times: &Times) -> Result<String> {
    let (mut picture, mut height) = (Picture::new(WIDTH), 0.0_f64);
    for panel in dashboard["panels"].as_array().ok_or("no panels")? {
        let place = |field: &str| panel["gridPos"][field].as_f64().ok_or("no place");
        let (x, y) = (place("x")? * CELL.0 + GAP, place("y")? * CELL.1 + GAP);
        let (w, h) = (place("w")? * CELL.0 - GAP, place("h")? * CELL.1 - GAP);
        height = height.max(y + h + GAP);
        picture.rectangle("frame", (x, y), (w, h));
        picture.text("strong", (x + 8.0, y + 17.0), panel["title"].as_str().ok_or("no title")?);
        let frame = [(x + 8.0, y + 26.0), (x + w - 8.0, y + h - 8.0)];
        let series = ask(panel, prometheus, times)?;
        match panel["type"].as_str() {
            Some("stat") => stat(&mut picture, panel, &series, frame)?,
            Some("timeseries") => lines(&mut picture, panel, &series, frame, times),
            Some("state-timeline") => states(&mut picture, panel, &series, frame, times)?,
            Some("table") => table(&mut picture, panel, &series, frame)?,
            other => return Err(format!("a panel of type {other:?}").into()),
        }
    }
    Ok(picture.finish(height, "The dashboard of a small fleet", "make picture NAME=dashboard"))
}

/// What Prometheus answers to the queries of a panel.
fn ask(panel: &Value, prometheus: &Prometheus, times: &Times) -> Result<Vec<Series>> {
    let mut all = Vec::new();
    let [start, end, step] = [times.start, times.end, times.step()].map(|number| number.to_string());
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
                Some((at - f64::from(times.start), value.is_finite().then_some(value)))
            };
            let points = values.iter().filter_map(point).collect();
            all.push(Series { name, labels: labels.clone(), points });
        }
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

fn stat(picture: &mut Picture, panel: &Value, series: &[Series], [(left, top), (right, bottom)]: Frame) -> Result<()> {
    let value = series.first().and_then(|series| series.points.last()?.1);
    let steps = panel["fieldConfig"]["defaults"]["thresholds"]["steps"].as_array().ok_or("no thresholds")?;
    let reached = |step: &&Value| step["value"].as_f64().is_none_or(|least| value.is_some_and(|value| value >= least));
    let color = steps.iter().rfind(reached).and_then(|step| step["color"].as_str()).unwrap_or_default();
    let text = value.map_or_else(|| "No data".to_owned(), |value| format!("{value:.0}"));
    let middle = (f64::midpoint(left, right), f64::midpoint(top, bottom) + 11.0);
    picture.text(&format!("large middle {color}"), middle, &text);
    Ok(())
}

fn lines(
    picture: &mut Picture,
    panel: &Value,
    series: &[Series],
    [(left, top), (right, bottom)]: Frame,
    times: &Times,
) {
    let defaults = &panel["fieldConfig"]["defaults"];
    let unit = defaults["unit"].as_str().unwrap_or_default();
    let values = || series.iter().flat_map(|series| series.points.iter().filter_map(|point| point.1));
    let least = values().fold(defaults["min"].as_f64().unwrap_or(f64::INFINITY), f64::min);
    let most = values().fold(f64::NEG_INFINITY, f64::max);
    let least = if least.is_finite() { least } else { 0.0 };
    let most = if most > least { most } else { least + 1.0 };

    let names = COLORS.into_iter().cycle().zip(series.iter().map(|series| &*series.name));
    let top = picture.legend("line", names, (left, top - 4.0), right) + 10.0;
    let (left, right, bottom) = (left + 56.0, right - 14.0, bottom - 16.0);
    let (up, across) = (Axis::linear(least, most, 4.0, (bottom, top)), times.axis((left, right)));
    picture.left_axis(&up, (left, right), |value| with_unit(value, unit));
    picture.bottom_axis(&across, (bottom, bottom), |seconds| with_unit(seconds, "s"));
    for (color, series) in COLORS.into_iter().cycle().zip(series) {
        let points = series.points.iter().map(|&(at, value)| Some((across.at(at), up.at(value?))));
        picture.curve(&format!("line {color}"), points);
    }
}

fn states(
    picture: &mut Picture,
    panel: &Value,
    series: &[Series],
    [(left, top), (right, _)]: Frame,
    times: &Times,
) -> Result<()> {
    let states = panel["fieldConfig"]["defaults"]["mappings"][0]["options"].as_object().ok_or("no states")?;
    let names = states.values().filter_map(|state| Some((state["color"].as_str()?, state["text"].as_str()?)));
    let mut y = picture.legend("box", names, (left, top - 4.0), right) + 18.0;
    let across = times.axis((left + 78.0, right));
    for series in series {
        picture.text("end", (left + 70.0, y + 4.0), &series.name);
        for (number, state) in states {
            let is_so = |value: Option<f64>| value.is_some_and(|value| value.to_string() == *number);
            let ends = |at: f64| [at, at + f64::from(times.step())].map(|at| (across.at(at).min(right), y));
            let stretches = series.points.iter().filter(|&&(_, value)| is_so(value)).map(|&(at, _)| ends(at));
            picture.segments(&format!("box {}", state["color"].as_str().ok_or("no color")?), stretches);
        }
        y += 21.0;
    }
    Ok(())
}

fn table(picture: &mut Picture, panel: &Value, series: &[Series], [(mut x, top), _]: Frame) -> Result<()> {
    let columns = panel["transformations"][0]["options"]["include"]["names"].as_array().ok_or("no columns")?;
    let columns: Vec<_> = columns.iter().filter_map(Value::as_str).collect();
    let cell = |series: &Series, column: &str| series.labels[column].as_str().unwrap_or_default().to_owned();
    let row = |series| columns.iter().map(|column| cell(series, column)).collect();
    let mut rows: Vec<Vec<String>> = series.iter().map(row).collect();
    rows.sort();
    rows.insert(0, columns.iter().map(|&column| column.to_owned()).collect());
    for column in 0..columns.len() {
        let mut y = top + 12.0;
        for (nth, row) in rows.iter().enumerate() {
            picture.text(if nth == 0 { "small strong" } else { "small" }, (x, y), &row[column]);
            y += 19.0;
        }
        x += 14.0 + rows.iter().map(|row| text_width(&row[column])).fold(0.0, f64::max) * 0.81;
    }
    Ok(())
}

/// A value as Grafana writes it, more or less.
fn with_unit(value: f64, unit: &str) -> String {
    // From which on, its seconds, and its name.
    const UNITS: [(f64, f64, &str); 6] = [
        (0.0, 1e-6, "µs"),
        (1e-3, 1e-3, "ms"),
        (1.0, 1.0, "s"),
        (120.0, 60.0, "min"),
        (86_400.0, 86_400.0, "days"),
        (31_556_952.0, 31_556_952.0, "yr"),
    ];
    let (_, seconds, name) = UNITS.iter().rfind(|(from, ..)| value.abs() >= *from).unwrap_or(&UNITS[0]);
    match unit {
        "percentunit" => round(value * 100.0) + "%",
        "s" if value == 0.0 => "0 s".to_owned(),
        "s" => format!("{} {name}", round(value / seconds)),
        _ => round(value),
    }
}
