//! Pictures of the answers, as SVG.
//!
//! Bars where nothing was varied, and lines where something was. Where contenders differ by more than a factor of 50
//! the axis is logarithmic; dots stand for bars then, since the length of a bar would say nothing. What was measured
//! goes from the least to the most by a thin line.

use crate::figures::{Answer, Figure};
use crate::numbers::{grouped, range, round, value};
use std::fmt::Write;

// Where things are on the picture, in pixels.
const WIDTH: f64 = 860.0;
const TOP: f64 = 70.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
/// The height of what lines are drawn in.
const PANEL: f64 = 300.0;
/// The least distance between two lines of text.
const LINE: f64 = 16.0;

/// Whose it is: the class of its colour, and what that is called.
type Origin = (&'static str, &'static str);

const ORIGINS: [Origin; 3] = [("ours", "snowflake_pg"), ("theirs", "PostgreSQL"), ("peers", "other generators")];

fn origin(contender: &str) -> Origin {
    if contender.contains("snowflake_") {
        ORIGINS[0]
    } else if ["PL/pgSQL", "pgrx", "pg_uuidv7", "pgEdge"].iter().any(|word| contender.contains(word)) {
        ORIGINS[2]
    } else {
        ORIGINS[1]
    }
}

/// The picture of an answer.
pub fn draw(answer: &Answer) -> String {
    let mut svg = String::new();
    let varied = answer.varied().len() > 1;
    let height = if varied { lines(&mut svg, answer) } else { bars(&mut svg, answer) };
    let heading = escaped(&answer.question.heading());
    let mut legend = String::new();
    let mut x = 20.0;
    for (class, label) in ORIGINS {
        if answer.contenders().iter().any(|contender| origin(contender).0 == class) {
            let _ = writeln!(legend, r#"<rect class="{class} solid" x="{x}" y="36" width="12" height="12"/>"#);
            let _ = writeln!(legend, r#"<text x="{}" y="46">{label}</text>"#, x + 18.0);
            x += 40.0 + text_width(label);
        }
    }
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">
<title>{heading}</title>
<desc>Drawn by make bench. {}</desc>
<style>
text {{ font: 12px system-ui, sans-serif; fill: #333 }}
.heading {{ font-size: 15px; font-weight: 600; fill: #111 }}
.end {{ text-anchor: end }}
.middle {{ text-anchor: middle }}
.reference {{ font-weight: 600 }}
.paper {{ fill: #fff }}
.grid {{ stroke: #e2e2e2; fill: none }}
.range {{ stroke: #333; stroke-width: 1.2; fill: none }}
.ours {{ color: #0072b2 }} .theirs {{ color: #b44e00 }} .peers {{ color: #00795a }}
.solid {{ fill: currentColor }}
.line {{ fill: none; stroke: currentColor; stroke-width: 2 }}
.thin {{ fill: none; stroke: currentColor }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #ccc }}
.heading {{ fill: #fff }}
.paper {{ fill: #0d1117 }}
.grid {{ stroke: #2b3138 }}
.range {{ stroke: #ccc }}
.ours {{ color: #56b4e9 }} .theirs {{ color: #e69f00 }} .peers {{ color: #35b48c }}
}}
</style>
<rect class="paper" width="100%" height="100%"/>
<text class="heading" x="20" y="22">{heading}</text>
{legend}{svg}</svg>
"##,
        escaped(&in_words(answer))
    )
}

/// The medians, for those who can't see the picture.
fn in_words(answer: &Answer) -> String {
    let figure = |figure: &&Figure| {
        let at = figure.at.map_or_else(String::new, |at| format!(" at {}", grouped(at)));
        format!("{}{at}: {}", figure.contender, value(figure.median, answer.question.unit))
    };
    answer.figures.iter().map(figure).collect::<Vec<_>>().join("; ")
}

/// Where a value is on an axis.
struct Axis {
    logarithmic: bool,
    /// The values at its ends, and the pixels.
    values: (f64, f64),
    pixels: (f64, f64),
    ticks: Vec<f64>,
}

impl Axis {
    /// An axis for everything that was measured.
    fn of(answer: &Answer, pixels: (f64, f64)) -> Self {
        let medians = || answer.figures.iter().map(|figure| figure.median).filter(|&median| median > 0.0);
        let (least, most) = range(&medians().collect::<Vec<_>>());
        if most > least * 50.0 {
            // A value that noise has brought near nothing must not stretch it.
            let (least, most) = extremes(answer, least / 10.0);
            return Self::logarithmic((decade(least), -(-most.log10()).floor()), pixels);
        }
        let (least, most) = extremes(answer, f64::NEG_INFINITY);
        let (least, most) = (least.min(0.0), if most > 0.0 { most } else { 1.0 });
        // Of 1, 2 and 5, the step that makes about five ticks.
        let power = 10_f64.powf(decade((most - least) / 5.0));
        let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| (most - least) / step <= 6.0);
        let step = step.unwrap_or(power);
        let mut ticks = vec![(least / step).floor() * step];
        while ticks[ticks.len() - 1] < most {
            ticks.push(ticks[ticks.len() - 1] + step);
        }
        Self { logarithmic: false, values: (ticks[0], ticks[ticks.len() - 1]), pixels, ticks }
    }

    /// An axis from one power of ten to another.
    fn logarithmic((low, high): (f64, f64), pixels: (f64, f64)) -> Self {
        let mut exponents = vec![low];
        while exponents[exponents.len() - 1] < high {
            exponents.push(exponents[exponents.len() - 1] + 1.0);
        }
        let ticks = exponents.iter().map(|&exponent| 10_f64.powf(exponent)).collect();
        Self { logarithmic: true, values: (10_f64.powf(low), 10_f64.powf(high)), pixels, ticks }
    }

    fn at(&self, value: f64) -> f64 {
        let (first, last) = self.values;
        let share = if self.logarithmic {
            (value.max(first) / first).log10() / (last / first).log10()
        } else {
            (value - first) / (last - first)
        };
        self.pixels.0 + share * (self.pixels.1 - self.pixels.0)
    }

    /// The labels of its ticks.
    fn note(&self) -> &'static str {
        if self.logarithmic { ", logarithmic" } else { "" }
    }
}

/// The least and the most that was measured above a limit.
fn extremes(answer: &Answer, limit: f64) -> (f64, f64) {
    let values = answer.figures.iter().flat_map(|figure| figure.values.iter().copied());
    range(&values.filter(|&value| value > limit && value.is_finite()).collect::<Vec<_>>())
}

fn decade(value: f64) -> f64 {
    value.log10().floor()
}

/// A row for each contender. Returns the height of the picture.
fn bars(svg: &mut String, answer: &Answer) -> f64 {
    let left = 36.0 + answer.contenders().iter().map(|name| text_width(name)).fold(0.0, f64::max);
    let axis = Axis::of(answer, (left, WIDTH - 90.0));
    let rows = answer.figures.iter().scan(TOP, |y, &figure| {
        *y += ROW;
        Some((*y - ROW, figure))
    });
    let rows: Vec<_> = rows.collect();
    let bottom = rows.last().map_or(TOP, |(y, _)| y + ROW);
    for &tick in &axis.ticks {
        let x = axis.at(tick);
        let _ = writeln!(svg, r#"<path class="grid" d="M{x:.1} {:.1}V{bottom:.1}"/>"#, TOP - 6.0);
        let _ = writeln!(svg, r#"<text class="middle" x="{x:.1}" y="{:.1}">{}</text>"#, bottom + 16.0, round(tick));
    }
    let unit = answer.question.unit;
    for (y, figure) in rows {
        let (middle, base) = (y + BAR / 2.0, y + BAR / 2.0 + 4.0);
        let class = origin(figure.contender).0;
        let reference = if figure.contender == answer.question.reference { " reference" } else { "" };
        let name = escaped(figure.contender);
        let _ = writeln!(svg, r#"<text class="end{reference}" x="{:.1}" y="{base:.1}">{name}</text>"#, left - 10.0);
        let (zero, x) = (axis.at(0.0), axis.at(figure.median));
        let (least, most) = range(&figure.values);
        let (from, to) = (axis.at(least), axis.at(most));
        if axis.logarithmic {
            if figure.median > 0.0 {
                let _ = writeln!(svg, r#"<circle class="{class} solid" cx="{x:.1}" cy="{middle:.1}" r="5"/>"#);
            }
        } else {
            let (start, width) = (zero.min(x), (x - zero).abs());
            let _ = writeln!(
                svg,
                r#"<rect class="{class} solid" x="{start:.1}" y="{y:.1}" width="{width:.1}" height="{BAR}"/>"#
            );
        }
        if to - from > 1.0 {
            let _ = writeln!(svg, r#"<path class="range" d="M{from:.1} {:.1}v6m0 -3H{to:.1}m0 -3v6"/>"#, middle - 3.0);
        }
        let after = x.max(to).max(zero) + 10.0;
        let text = value(figure.median, unit);
        let _ = writeln!(svg, r#"<text class="value{reference}" x="{after:.1}" y="{base:.1}">{text}</text>"#);
    }
    let _ = writeln!(
        svg,
        r#"<text class="middle" x="{:.1}" y="{:.1}">{}{}</text>"#,
        f64::midpoint(axis.pixels.0, axis.pixels.1),
        bottom + 36.0,
        escaped(unit),
        axis.note()
    );
    bottom + 50.0
}

/// A line for each contender. Returns the height of the picture.
fn lines(svg: &mut String, answer: &Answer) -> f64 {
    let names = answer.contenders().iter().map(|name| text_width(name)).fold(0.0, f64::max);
    let (left, right, bottom) = (70.0, WIDTH - names - 50.0, TOP + PANEL);
    let axis = Axis::of(answer, (bottom, TOP));
    let varied = answer.varied();
    // Side by side, whatever is between them: 1, 2, 4, 16 clients, or 500, 990, 999 of 1,000 calls.
    #[expect(clippy::cast_precision_loss, reason = "a handful")]
    let across = |nth: usize| left + 16.0 + (right - left - 32.0) * nth as f64 / (varied.len() - 1) as f64;
    for &tick in &axis.ticks {
        let y = axis.at(tick);
        let _ = writeln!(svg, r#"<path class="grid" d="M{left} {y:.1}H{right:.1}"/>"#);
        let _ = writeln!(svg, r#"<text class="end" x="{:.1}" y="{:.1}">{}</text>"#, left - 8.0, y + 4.0, round(tick));
    }
    let mut free = 0.0;
    for (nth, &at) in varied.iter().enumerate() {
        let (x, label) = (across(nth), grouped(at));
        let _ = writeln!(svg, r#"<path class="grid" d="M{x:.1} {bottom:.1}v6"/>"#);
        // Those that have room.
        if x - text_width(&label) / 2.0 > free {
            let _ = writeln!(svg, r#"<text class="middle" x="{x:.1}" y="{:.1}">{label}</text>"#, bottom + 20.0);
            free = x + text_width(&label) / 2.0 + 4.0;
        }
    }
    let mut labels = Vec::new();
    // The last one is on top.
    let mut contenders = answer.contenders();
    contenders.sort_by_key(|&contender| contender == answer.question.reference);
    for contender in contenders {
        let measured = |(nth, &at): (usize, &u64)| answer.find(contender, Some(at)).map(|figure| (nth, figure));
        let figures: Vec<_> = varied.iter().enumerate().filter_map(measured).collect();
        let class = origin(contender).0;
        let (mut points, mut ranges, mut last) = (String::new(), String::new(), (left, bottom));
        for (nth, figure) in figures {
            last = (across(nth), axis.at(figure.median));
            let (least, most) = range(&figure.values);
            let _ = write!(points, "{:.1},{:.1} ", last.0, last.1);
            let _ = write!(ranges, "M{:.1} {:.1}V{:.1}", last.0, axis.at(least), axis.at(most));
            let _ = writeln!(svg, r#"<circle class="{class} solid" cx="{:.1}" cy="{:.1}" r="3"/>"#, last.0, last.1);
        }
        let _ = writeln!(svg, r#"<polyline class="{class} line" points="{}"/>"#, points.trim_end());
        let _ = writeln!(svg, r#"<path class="{class} thin" d="{ranges}"/>"#);
        labels.push((last, contender));
    }
    // Each beside the end of its line, as far as there is room.
    labels.sort_by(|((_, a), _), ((_, b), _)| a.total_cmp(b));
    let mut places: Vec<f64> = labels.iter().map(|((_, y), _)| *y).collect();
    let mut above = TOP - LINE;
    for place in &mut places {
        *place = place.max(above + LINE);
        above = *place;
    }
    let mut below = bottom + LINE;
    for place in places.iter_mut().rev() {
        *place = place.min(below - LINE);
        below = *place;
    }
    for (((x, y), contender), label) in labels.into_iter().zip(places) {
        let class = origin(contender).0;
        let reference = if contender == answer.question.reference { " reference" } else { "" };
        let _ =
            writeln!(svg, r#"<path class="{class} thin" d="M{:.1} {y:.1}L{:.1} {label:.1}"/>"#, x + 5.0, right + 16.0);
        let _ = writeln!(
            svg,
            r#"<text class="{class} solid{reference}" x="{:.1}" y="{:.1}">{}</text>"#,
            right + 20.0,
            label + 4.0,
            escaped(contender)
        );
    }
    let _ = writeln!(
        svg,
        r#"<text class="middle" x="{:.1}" y="{:.1}">{}</text>"#,
        f64::midpoint(left, right),
        bottom + 42.0,
        answer.varies()
    );
    let _ = writeln!(
        svg,
        r#"<text class="middle" transform="translate(16 {:.1}) rotate(-90)">{}{}</text>"#,
        TOP + PANEL / 2.0,
        escaped(answer.question.unit),
        axis.note()
    );
    bottom + 56.0
}

/// How wide a text is, by and large.
fn text_width(text: &str) -> f64 {
    text.chars().map(|_| 6.9).sum()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
