//! Draws docs/layouts.svg: where the bits of each layout with a name are.
//!
//! Run with `make layout-picture`.

use snowflake_core::layout::{Layout, PRESETS};
use std::error::Error;
use std::fmt::Write;
use std::fs;

// Where things are on the picture, in pixels.
const WIDTH: usize = 940;
const LEFT: usize = 104;
const TOP: usize = 64;
const BIT: usize = 10;
const ROW: usize = 34;
const BAR: usize = 22;

fn main() -> Result<(), Box<dyn Error>> {
    let height = TOP + PRESETS.len() * ROW + 16;
    let mut svg = String::new();
    writeln!(
        svg,
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img">
<title>Where the bits of an ID are</title>
<desc>Drawn by make layout-picture. A bar of 64 bits for each layout, with the fields from the highest bits to the lowest.</desc>
<style>
text {{ font: 12px system-ui, sans-serif; fill: #333 }}
.name {{ font: 600 13px ui-monospace, monospace; fill: #111; text-anchor: end }}
.middle {{ text-anchor: middle }}
.paper {{ fill: #fff }}
.field {{ font: 12px ui-monospace, monospace; text-anchor: middle; fill: #fff }}
.t {{ fill: #0072b2 }} .d {{ fill: #a3527f }} .w {{ fill: #b44e00 }} .s {{ fill: #00795a }} .unused {{ fill: #d4d4d4 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #ccc }}
.name {{ fill: #fff }}
.paper {{ fill: #0d1117 }}
.unused {{ fill: #333a42 }}
}}
</style>
<rect class="paper" width="100%" height="100%"/>"##
    )?;
    let legend =
        [("t", "timestamp"), ("d", "data center"), ("w", "worker"), ("s", "sequence"), ("unused", "not used, 0")];
    for (number, (class, label)) in legend.into_iter().enumerate() {
        let x = LEFT + number * 120;
        writeln!(svg, r#"<rect class="{class}" x="{x}" y="14" width="14" height="14"/>"#)?;
        writeln!(svg, r#"<text x="{}" y="26">{label}</text>"#, x + 20)?;
    }
    for bit in [63, 48, 32, 16, 0] {
        let x = LEFT + (63 - bit) * BIT + BIT / 2;
        writeln!(svg, r#"<text class="middle" x="{x}" y="{}">{bit}</text>"#, TOP - 8)?;
    }
    for (number, preset) in PRESETS.iter().enumerate() {
        row(&mut svg, preset.name, &preset.layout(), TOP + number * ROW)?;
    }
    svg.push_str("</svg>\n");
    fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/layouts.svg"), svg)?;
    println!("==> Drawn: docs/layouts.svg");
    Ok(())
}

fn row(svg: &mut String, name: &str, layout: &Layout, top: usize) -> Result<(), Box<dyn Error>> {
    let base = top + BAR / 2 + 4;
    writeln!(svg, r#"<text class="name" x="{}" y="{base}">{name}</text>"#, LEFT - 10)?;
    let unused = 64 - usize::try_from(layout.bits())?;
    let mut x = LEFT;
    if unused > 0 {
        writeln!(svg, r#"<rect class="unused" x="{x}" y="{top}" width="{}" height="{BAR}"/>"#, unused * BIT - 1)?;
        x += unused * BIT;
    }
    for field in layout.fields_text().split(' ') {
        let (class, bits) = field.split_at(1);
        let width = bits.parse::<usize>()? * BIT;
        writeln!(svg, r#"<rect class="{class}" x="{x}" y="{top}" width="{}" height="{BAR}"/>"#, width - 1)?;
        writeln!(svg, r#"<text class="field" x="{}" y="{base}">{field}</text>"#, x + width / 2)?;
        x += width;
    }
    let unit = match layout.tick_ms() {
        1000 => "1 s".to_owned(),
        ms => format!("{ms} ms"),
    };
    writeln!(svg, r#"<text x="{}" y="{base}">{unit}, {:.1} years</text>"#, x + 12, layout.years())?;
    Ok(())
}
