//! Tables in Markdown, with their columns aligned so that they can be read in a terminal, too.

use crate::figures::{Answer, Figure};
use crate::numbers::{grouped, number, range, ratio, spread, value};
use std::fmt::Write;

/// What one question was answered with.
pub fn of(answer: &Answer) -> String {
    if answer.varied().is_empty() {
        return unvaried(answer);
    }
    let reference = answer.question.reference;
    format!("Median, ± half of the range, and its ratio to {reference}.\n\n{}", varied(answer))
}

fn times(answer: &Answer, figure: &Figure) -> String {
    let reference = answer.find(answer.question.reference, figure.at);
    let ratio = reference.and_then(|reference| ratio(figure.median, reference.median));
    ratio.map_or_else(String::new, |ratio| number(ratio) + "×")
}

/// A row for each contender.
fn unvaried(answer: &Answer) -> String {
    let unit = answer.question.unit;
    // One value has no spread.
    let spread = answer.figures.iter().any(|figure| figure.values.len() > 1);
    let least_and_most = if spread { vec!["least".to_owned(), "most".to_owned()] } else { Vec::new() };
    let head = vec![unit.to_owned(), "median".to_owned()];
    // Nothing is divided by nothing.
    let compared = answer.figures.iter().any(|figure| !times(answer, figure).is_empty());
    let ratio = if compared { vec![format!("÷ {}", answer.question.reference)] } else { Vec::new() };
    let mut rows = vec![[head, least_and_most, ratio].concat()];
    for figure in &answer.figures {
        let (least, most) = range(&figure.values);
        let numbers = if spread { vec![figure.median, least, most] } else { vec![figure.median] };
        let numbers = numbers.into_iter().map(|number| value(number, unit)).collect();
        let ratio = if compared { vec![times(answer, figure)] } else { Vec::new() };
        rows.push([vec![figure.contender.to_owned()], numbers, ratio].concat());
    }
    aligned(&rows)
}

/// A row for each contender, and a column for each value of what was varied.
fn varied(answer: &Answer) -> String {
    let (unit, contenders) = (answer.question.unit, answer.contenders());
    let first = [format!("{unit}, by {}", answer.varies())].into_iter();
    let mut columns: Vec<Vec<String>> = vec![first.chain(contenders.iter().map(|&name| name.to_owned())).collect()];
    for at in answer.varied() {
        let parts = contenders.iter().map(|contender| {
            answer.find(contender, Some(at)).map_or_else(Default::default, |figure| {
                let spread = spread(&figure.values).unwrap_or_default();
                [value(figure.median, unit), spread, times(answer, figure)]
            })
        });
        columns.push([grouped(at)].into_iter().chain(beside(&parts.collect::<Vec<_>>())).collect());
    }
    let row = |line: usize| columns.iter().map(|column| column[line].clone()).collect();
    aligned(&(0..=contenders.len()).map(row).collect::<Vec<_>>())
}

/// Cells of several parts, each as wide as in the other cells.
fn beside<const PARTS: usize>(cells: &[[String; PARTS]]) -> Vec<String> {
    let width = |part: usize| cells.iter().map(|cell| cell[part].chars().count()).max().unwrap_or(0);
    let cell = |cell: &[String; PARTS]| {
        let parts = (0..PARTS).filter(|&part| width(part) > 0);
        parts.map(|part| format!("{:>width$}", cell[part], width = width(part))).collect::<Vec<_>>().join(" ")
    };
    cells.iter().map(cell).collect()
}

/// Rows of one table, the first its heading.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for (line, row) in rows.iter().enumerate() {
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let _ = if column == 0 { write!(text, "| {cell:<width$} ") } else { write!(text, "| {cell:>width$} ") };
        }
        text.push_str("|\n");
        if line == 0 {
            for (column, width) in widths.iter().enumerate() {
                let _ = write!(text, "|{}{}", "-".repeat(width + 1), if column == 0 { "-" } else { ":" });
            }
            text.push_str("|\n");
        }
    }
    text
}
