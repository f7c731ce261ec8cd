//! Pictures of the answers.
//!
//! Bars where nothing was varied, and lines where something was. Where contenders differ by more than a factor of 50
//! the axis is logarithmic; dots stand for bars then, since the length of a bar would say nothing. What was measured
//! goes from the least to the most by a thin line.

use crate::figures::Answer;
use crate::numbers::{grouped, range, round, value};
use pictures::{Axis, Picture, text_width};

// Where things are on the picture, in pixels.
const WIDTH: f64 = 860.0;
const TOP: f64 = 70.0;
const ROW: f64 = 26.0;
const BAR: f64 = 16.0;
/// The height of what lines are drawn in.
const PANEL: f64 = 300.0;
/// The least distance between two lines of text.
const LINE: f64 = 16.0;

/// Whose contenders are: the class of their color, and what that is called.
const ORIGINS: [(&str, &str); 3] = [("c0", "snowflake_pg"), ("c1", "PostgreSQL"), ("c2", "other generators")];

/// The class of a contender's color.
fn color(contender: &str) -> &'static str {
    if contender.contains("snowflake_") {
        return ORIGINS[0].0;
    }
    let is_other = ["PL/pgSQL", "pgrx", "pg_uuidv7", "pgEdge"].iter().any(|word| contender.contains(word));
    if is_other { ORIGINS[2].0 } else { ORIGINS[1].0 }
}

pub fn draw(answer: &Answer) -> String {
    let (heading, contenders) = (answer.question.heading(), answer.contenders());
    let mut picture = Picture::new(WIDTH);
    picture.text("title", (20.0, 22.0), &heading);
    let is_there = |(class, _): &(&str, &str)| contenders.iter().any(|contender| color(contender) == *class);
    picture.legend("box", ORIGINS.into_iter().filter(is_there), (20.0, 34.0), WIDTH);
    let names = contenders.iter().map(|name| text_width(name)).fold(0.0, f64::max);
    let draw = if answer.varied().len() > 1 { lines } else { bars };
    let height = draw(&mut picture, answer, names);
    picture.finish(height, &heading, "make bench")
}

/// An axis for everything that was measured.
fn axis(answer: &Answer, pixels: (f64, f64)) -> Axis {
    let medians = answer.figures.iter().map(|figure| figure.median).filter(|&median| median > 0.0);
    let (least, most) = range(&medians.collect::<Vec<_>>());
    let is_logarithmic = most > least * 50.0;
    // A value that noise has brought near nothing must not stretch it.
    let limit = if is_logarithmic { least / 10.0 } else { f64::NEG_INFINITY };
    let values = answer.figures.iter().flat_map(|figure| figure.values.iter().copied());
    let (least, most) = range(&values.filter(|value| *value > limit && value.is_finite()).collect::<Vec<_>>());
    if is_logarithmic {
        Axis::logarithmic(least, most, pixels)
    } else {
        Axis::linear(least.min(0.0), if most > 0.0 { most } else { 1.0 }, 6.0, pixels)
    }
}

fn unit(answer: &Answer, axis: &Axis) -> String {
    answer.question.unit.to_owned() + if axis.is_logarithmic { ", logarithmic" } else { "" }
}

/// A row for each contender, with names of this width. Returns the height of the picture.
fn bars(picture: &mut Picture, answer: &Answer, names: f64) -> f64 {
    let left = 36.0 + names;
    let axis = axis(answer, (left, WIDTH - 90.0));
    let bottom = answer.figures.iter().fold(TOP, |y, _| y + ROW);
    picture.bottom_axis(&axis, (TOP - 6.0, bottom), round);
    let mut y = TOP;
    for figure in &answer.figures {
        let (class, middle) = (color(figure.contender), y + BAR / 2.0);
        let strong = if figure.contender == answer.question.reference { "strong" } else { "" };
        picture.text(&format!("end {strong}"), (left - 10.0, middle + 4.0), figure.contender);
        let (least, most) = range(&figure.values);
        let [zero, x, from, to] = [0.0, figure.median, least, most].map(|value| axis.at(value));
        if !axis.is_logarithmic {
            picture.rectangle(class, (zero.min(x), y), ((x - zero).abs(), BAR));
        } else if figure.median > 0.0 {
            picture.dot(class, (x, middle), 5.0);
        }
        if to - from > 1.0 {
            let end = |x| [(x, middle - 3.0), (x, middle + 3.0)];
            picture.segments("", [end(from), [(from, middle), (to, middle)], end(to)]);
        }
        picture.text(strong, (x.max(to).max(zero) + 10.0, middle + 4.0), &value(figure.median, answer.question.unit));
        y += ROW;
    }
    picture.text("middle", (axis.middle(), bottom + 36.0), &unit(answer, &axis));
    bottom + 50.0
}

/// A line for each contender, with names of this width. Returns the height of the picture.
fn lines(picture: &mut Picture, answer: &Answer, names: f64) -> f64 {
    let (left, right, bottom) = (70.0, WIDTH - names - 50.0, TOP + PANEL);
    let axis = axis(answer, (bottom, TOP));
    picture.left_axis(&axis, (left, right), round);
    // Side by side, whatever is between them: 1, 2, 4, 16 clients, or 500, 990, 999 of 1,000 calls.
    let varied: Vec<_> = (0_u32..).map(f64::from).zip(answer.varied()).collect();
    let across = Axis::with_step(0.0, varied[varied.len() - 1].0, 1.0, (left + 16.0, right - 16.0));
    let mut labels = varied.iter().map(|&(_, at)| grouped(at));
    picture.bottom_axis(&across, (bottom, bottom + 6.0), |_| labels.next().unwrap_or_default());
    let mut ends = Vec::new();
    // The last one is on top.
    let mut contenders = answer.contenders();
    contenders.sort_by_key(|&contender| contender == answer.question.reference);
    for contender in contenders {
        let class = color(contender);
        let measured = varied.iter().filter_map(|&(nth, at)| Some((across.at(nth), answer.find(contender, Some(at))?)));
        let measured: Vec<_> = measured.collect();
        let points: Vec<_> = measured.iter().map(|(x, figure)| (*x, axis.at(figure.median))).collect();
        points.iter().for_each(|&point| picture.dot(class, point, 3.0));
        picture.curve(&format!("{class} line"), points.iter().copied().map(Some));
        let ranges = measured.iter().map(|&(x, figure)| (x, range(&figure.values)));
        picture.segments(class, ranges.map(|(x, (least, most))| [(x, axis.at(least)), (x, axis.at(most))]));
        ends.extend(points.last().map(|&end| (end, contender)));
    }
    // Each name beside the end of its line, as far as there is room.
    ends.sort_by(|((_, a), _), ((_, b), _)| a.total_cmp(b));
    let (mut above, mut below) = (TOP, ends.iter().skip(1).fold(bottom, |y, _| y - LINE));
    for ((x, y), contender) in ends {
        let place = y.min(below).max(above);
        (above, below) = (place + LINE, below + LINE);
        let strong = if contender == answer.question.reference { "strong" } else { "" };
        picture.segments(color(contender), [[(x + 5.0, y), (right + 16.0, place)]]);
        picture.text(&format!("{} {strong}", color(contender)), (right + 20.0, place + 4.0), contender);
    }
    picture.text("middle", (across.middle(), bottom + 42.0), answer.varies());
    picture.upward_text((16.0, axis.middle()), &unit(answer, &axis));
    bottom + 56.0
}
