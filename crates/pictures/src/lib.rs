//! The pictures of the documentation. Nothing else writes SVG, except that termtosvg-ng draws the first minute.
//!
//! All have the style of `style.css`, for a reader's light or dark page. Libraries for charts write colors into each
//! element, so that their pictures fit only one of the two.

mod axis;
mod layouts;

pub use axis::Axis;
pub use layouts::layouts;
use std::fmt::{Display, Write};

/// Pixels from the left, and from the top.
pub type Point = (f64, f64);

/// How wide a text is, by and large.
pub fn text_width(text: &str) -> f64 {
    text.chars().map(|_| 6.9).sum()
}

/// A picture that is being drawn. Each class is of `style.css`, and there can be several.
pub struct Picture {
    width: f64,
    body: String,
}

impl Picture {
    /// An empty picture of so many pixels.
    pub fn new(width: f64) -> Self {
        Self { width, body: String::new() }
    }

    /// A text that begins at a point; with class `middle` or `end`, that has its middle or its end there.
    pub fn text(&mut self, class: &str, (x, y): Point, text: &str) {
        if text.is_empty() {
            return;
        }
        self.element(format_args!(r#"<text class="{class}" x="{x:.1}" y="{y:.1}">{}</text>"#, escaped(text)));
    }

    /// A text from the bottom to the top, with its middle at a point.
    pub fn upward_text(&mut self, (x, y): Point, text: &str) {
        let transform = format_args!("translate({x:.1} {y:.1}) rotate(-90)");
        self.element(format_args!(r#"<text class="middle" transform="{transform}">{}</text>"#, escaped(text)));
    }

    /// A filled box.
    pub fn rectangle(&mut self, class: &str, (x, y): Point, (width, height): (f64, f64)) {
        let size = format_args!(r#"width="{width:.1}" height="{height:.1}""#);
        self.element(format_args!(r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" {size}/>"#));
    }

    /// A dot of this radius.
    pub fn dot(&mut self, class: &str, (x, y): Point, radius: f64) {
        self.element(format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{radius}"/>"#));
    }

    /// A line through points, with gaps where there is none.
    pub fn curve(&mut self, class: &str, points: impl IntoIterator<Item = Option<Point>>) {
        let points: Vec<_> = points.into_iter().collect();
        let level = |nth: usize| points.get(nth).copied().flatten().map(|(_, y)| y);
        let (mut path, mut command) = (String::new(), 'M');
        for (nth, point) in points.iter().enumerate() {
            // The ends of a level stretch are enough.
            let is_within = level(nth.wrapping_sub(1)) == level(nth) && level(nth) == level(nth + 1);
            if let (Some((x, y)), false) = (point, is_within) {
                let _ = write!(path, "{command}{x:.1} {y:.1}");
            }
            command = if point.is_some() { 'L' } else { 'M' };
        }
        self.path(class, &path);
    }

    /// Lines from one point to another.
    pub fn segments(&mut self, class: &str, segments: impl IntoIterator<Item = [Point; 2]>) {
        let segment = |[(x, y), (to_x, to_y)]: [Point; 2]| {
            // Most are level.
            let end = if y == to_y { format!("H{to_x:.1}") } else { format!("L{to_x:.1} {to_y:.1}") };
            format!("M{x:.1} {y:.1}{end}")
        };
        self.path(class, &segments.into_iter().map(segment).collect::<String>());
    }

    /// Grid lines for an axis from the bottom to the top, and their labels on the left.
    pub fn left_axis(&mut self, axis: &Axis, (left, right): (f64, f64), label: impl Fn(f64) -> String) {
        self.segments("grid", axis.ticks().map(|(_, y)| [(left, y), (right, y)]));
        for (value, y) in axis.ticks() {
            self.text("end", (left - 8.0, y + 4.0), &label(value));
        }
    }

    /// Grid lines for an axis from the left to the right, and below them the labels that have room.
    pub fn bottom_axis(&mut self, axis: &Axis, (top, bottom): (f64, f64), mut label: impl FnMut(f64) -> String) {
        self.segments("grid", axis.ticks().map(|(_, x)| [(x, top), (x, bottom)]));
        let mut free = f64::NEG_INFINITY;
        for (value, x) in axis.ticks() {
            let label = label(value);
            let half = text_width(&label) / 2.0;
            if x - half > free {
                self.text("middle", (x, bottom + 18.0), &label);
                free = x + half + 4.0;
            }
        }
    }

    /// A line of this class in each color, with its label, in rows up to the right edge. Returns the bottom.
    pub fn legend<'a>(
        &mut self,
        class: &str,
        items: impl IntoIterator<Item = (&'a str, &'a str)>,
        (left, top): Point,
        right: f64,
    ) -> f64 {
        let (mut x, mut y) = (left, top + 12.0);
        for (color, label) in items {
            let width = 22.0 + text_width(label);
            if x + width > right && x > left {
                (x, y) = (left, y + 16.0);
            }
            self.segments(&format!("{class} {color}"), [[(x, y - 4.0), (x + 14.0, y - 4.0)]]);
            self.text("", (x + 20.0, y), label);
            x += width + 10.0;
        }
        y + 4.0
    }

    /// The picture as a file, and who draws it.
    pub fn finish(self, height: f64, title: &str, by: &str) -> String {
        let Self { width, body } = self;
        let (title, style) = (escaped(title), include_str!("style.css"));
        format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">
<title>{title}</title>
<desc>Drawn by {by}.</desc>
<style>
{style}</style>
<rect class="paper" width="100%" height="100%"/>
{body}</svg>
"#
        )
    }

    fn path(&mut self, class: &str, path: &str) {
        if !path.is_empty() {
            self.element(format_args!(r#"<path class="{class}" d="{path}"/>"#));
        }
    }

    fn element(&mut self, element: impl Display) {
        self.body += &element.to_string().replace(r#" class="""#, "");
        self.body.push('\n');
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
