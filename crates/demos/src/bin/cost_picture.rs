//! Draws docs/cost.svg: what an ID costs, beside what PostgreSQL itself has. The figures are those of
//! docs/benchmarks/results.md.
//!
//! Run with `make picture NAME=cost`.

use pictures::Picture;
use std::error::Error;
use std::fs;
use testbed::project;

/// The rows of the table, and what they are called here. One that was not measured is left out.
const SHOWN: [(&str, &str); 5] = [
    ("snowflake_nextval()", "snowflake_nextval()"),
    ("clock_timestamp()", "clock_timestamp()"),
    ("nextval(), CACHE 1", "nextval()"),
    ("uuidv7()", "uuidv7()"),
    ("gen_random_uuid()", "gen_random_uuid()"),
];

// In pixels.
const WIDTH: f64 = 760.0;
const LEFT: f64 = 170.0;
const LONGEST: f64 = 500.0;
const TOP: f64 = 40.0;
const ROW: f64 = 30.0;

fn main() -> Result<(), Box<dyn Error>> {
    let results = fs::read_to_string(project().join("docs/benchmarks/results.md"))?;
    let (_, table) = results.split_once("### CPU time of one ID, ns").ok_or("the results have no cost of an ID")?;
    let (table, _) = table.split_once("\n###").unwrap_or((table, ""));
    let median = |row: &str| {
        let mut cells = table.lines().map(|line| line.split('|').map(str::trim));
        cells.find_map(|mut line| (line.nth(1)? == row).then(|| line.next())?)
    };
    let bars: Vec<(&str, &str, f64)> = SHOWN
        .iter()
        .filter_map(|(row, name)| median(row).map(|text| (*name, text)))
        .map(|(name, text)| Ok((name, text, text.replace(',', "").parse()?)))
        .collect::<Result<_, Box<dyn Error>>>()?;
    let most = bars.iter().map(|bar| bar.2).fold(0.0, f64::max);
    let mut picture = Picture::new(WIDTH);
    picture.text("title", (16.0, 24.0), "CPU time of one ID in nanoseconds: less is better");
    let mut top = TOP;
    for (name, text, ns) in bars {
        let (base, width) = (top + ROW / 2.0 + 4.0, ns / most * LONGEST);
        let (color, weight) = if top > TOP { ("c6", "") } else { ("c0", " strong") };
        picture.text(&format!("code end{weight}"), (LEFT - 10.0, base), name);
        picture.rectangle(color, (LEFT, top + 5.0), (width, ROW - 10.0));
        picture.text(weight.trim(), (LEFT + width + 8.0, base), text);
        top += ROW;
    }
    let drawn = picture.finish(top + 10.0, "CPU time of one ID", "make picture NAME=cost");
    fs::write(project().join("docs/cost.svg"), drawn)?;
    println!("==> Drawn: docs/cost.svg");
    Ok(())
}
