//! Draws docs/layouts.svg: where the bits of each layout with a name are.
//!
//! Run with `make picture NAME=layouts`.

use pictures::Picture;
use snowflake_core::layout::{Layout, PRESETS};
use std::error::Error;
use std::fs;
use testbed::project;

// Where things are on the picture, in pixels.
const LEFT: f64 = 104.0;
const TOP: f64 = 64.0;
const BIT: f64 = 10.0;
const ROW: f64 = 34.0;
const BAR: f64 = 22.0;

/// The letter of each kind of field, the class of its color, and what it is.
const FIELDS: [(&str, &str, &str); 5] = [
    ("t", "c0", "timestamp"),
    ("d", "c3", "data center"),
    ("w", "c1", "worker"),
    ("s", "c2", "sequence"),
    ("", "empty", "not used, 0"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut picture = Picture::new(940.0);
    picture.legend("box", FIELDS.map(|(_, color, label)| (color, label)), (LEFT, 14.0), 940.0);
    for bit in [63_u32, 48, 32, 16, 0] {
        let x = LEFT + (63.5 - f64::from(bit)) * BIT;
        picture.text("middle", (x, TOP - 8.0), &bit.to_string());
    }
    let mut top = TOP;
    for preset in PRESETS {
        row(&mut picture, preset.name, &preset.layout(), top)?;
        top += ROW;
    }
    let drawn = picture.finish(top + 16.0, "Where the bits of an ID are", "make picture NAME=layouts");
    fs::write(project().join("docs/layouts.svg"), drawn)?;
    println!("==> Drawn: docs/layouts.svg");
    Ok(())
}

fn row(picture: &mut Picture, name: &str, layout: &Layout, top: f64) -> Result<(), Box<dyn Error>> {
    let base = top + BAR / 2.0 + 4.0;
    picture.text("code strong end", (LEFT - 10.0, base), name);
    let mut x = LEFT;
    let unused = (64 - layout.bits()).to_string();
    let fields = layout.fields_text();
    for field in [&*unused].into_iter().chain(fields.split(' ')) {
        let (_, class, _) = FIELDS.iter().find(|(letter, ..)| field.starts_with(letter)).ok_or("another field")?;
        let letter = field.trim_end_matches(|c: char| c.is_ascii_digit());
        let width = field[letter.len()..].parse::<f64>()? * BIT;
        if width > 0.0 {
            picture.rectangle(class, (x, top), (width - 1.0, BAR));
        }
        if !letter.is_empty() {
            picture.text("code middle on-color", (x + width / 2.0, base), field);
        }
        x += width;
    }
    let unit = match layout.tick_ms() {
        1000 => "1 s".to_owned(),
        ms => format!("{ms} ms"),
    };
    picture.text("", (x + 12.0, base), &format!("{unit}, {:.1} years", layout.years()));
    Ok(())
}
