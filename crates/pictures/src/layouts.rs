//! Where the bits of each layout are.

use crate::Picture;
use snowflake_core::id::layout::{Layout, PRESETS};

// Where things are on the picture, in pixels. On a page of GitHub it is not made smaller.
const WIDTH: f64 = 830.0;
const LEFT: f64 = 112.0;
const TOP: f64 = 60.0;
const BIT: f64 = 8.0;
const ROW: f64 = 27.0;
const BAR: f64 = 20.0;

/// The letter of each kind of field, the class of its color, and what it is.
const FIELDS: [(char, &str, &str); 5] = [
    ('t', "c0", "timestamp (t)"),
    ('d', "c3", "data center (d)"),
    ('w', "c1", "worker (w)"),
    ('h', "c4", "tag (h)"),
    ('s', "c2", "sequence (s)"),
];

/// The picture as a file, of all layouts with a name and of one with a tag.
///
/// # Panics
///
/// Panics if a layout has a field that is not in the legend.
pub fn layouts() -> String {
    let mut picture = Picture::new(WIDTH);
    let legend = FIELDS.map(|(_, color, label)| (color, label)).into_iter().chain([("empty", "not used, 0")]);
    picture.legend("box", legend, (LEFT, 12.0), WIDTH);
    for bit in [63_u32, 48, 32, 16, 0] {
        picture.text("middle", (LEFT + (63.5 - f64::from(bit)) * BIT, TOP - 8.0), &bit.to_string());
    }
    let tagged: Layout = "t41 w5 s9 h8".parse().expect("a layout");
    let named = PRESETS.iter().map(|preset| ("code strong end", preset.name, preset.layout()));
    let mut top = TOP;
    for (nth, (class, name, layout)) in named.chain([("end", "one with a tag", tagged)]).enumerate() {
        let remark = match layout.check_issuing() {
            _ if nth == 0 => ", default",
            Ok(()) => "",
            Err(_) => ", read only",
        };
        picture.text(class, (LEFT - 10.0, base(top)), name);
        row(&mut picture, &layout, remark, top);
        top += ROW;
    }
    picture.finish(top + 12.0, "Where the bits of an ID are", "make picture NAME=layouts")
}

/// Where the texts of a row stand.
fn base(top: f64) -> f64 {
    top + BAR / 2.0 + 4.0
}

fn row(picture: &mut Picture, layout: &Layout, remark: &str, top: f64) {
    let mut x = LEFT;
    let mut bar = |picture: &mut Picture, class: &str, bits: u32, text: &str| {
        let width = f64::from(bits) * BIT;
        if bits > 0 {
            picture.rectangle(class, (x, top), (width - 1.0, BAR));
            picture.text("code middle on-color", (x + width / 2.0, base(top)), text);
        }
        x += width;
    };
    bar(picture, "empty", 64 - layout.bits(), "");
    for field in layout.fields_text().split(' ') {
        let (letter, bits) = field.split_at(1);
        let (_, class, _) = FIELDS.iter().find(|(of, ..)| letter.starts_with(*of)).expect("a field of the legend");
        bar(picture, class, bits.parse().expect("a width"), field);
    }
    let unit = if layout.tick_ms() == 1000 { "1 s".to_owned() } else { format!("{} ms", layout.tick_ms()) };
    picture.text("", (x + 10.0, base(top)), &format!("{unit}, {:.1} years{remark}", layout.years()));
}
