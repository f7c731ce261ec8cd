//! The table of what was seen.

use super::events::Seen;
use std::time::Duration;

/// By the promise of its case.
pub fn print(cases: &[(&str, Vec<Seen>)]) {
    let seconds = |time: Duration| format!("{:.1}", time.as_secs_f64());
    let mut totals = (0, 0, 0);
    for (promise, seen) in cases {
        println!("\n{}", promise.replace('_', " "));
        println!(
            "  {:<50} {:>9} {:>10} {:>5} {:>10} {:>11} {:>11} {:>12}",
            "event", "IDs", "promotions", "dups", "old node s", "longest s", "sequence s", "its dups"
        );
        for seen in seen {
            println!(
                "  {:<50} {:>9} {:>10} {:>5} {:>10} {:>11} {:>11} {:>12}",
                seen.event.words(),
                seen.ids,
                seen.promotions,
                seen.duplicates,
                seen.beside.map_or_else(|| "-".to_owned(), seconds),
                seconds(seen.gap),
                seconds(seen.serial.0),
                seen.serial.1
            );
            totals.0 += seen.ids;
            totals.1 += seen.promotions;
            totals.2 += seen.duplicates;
        }
    }
    if totals.1 == 0 {
        return;
    }
    println!("\n{} IDs, {} promotions, {} IDs twice", totals.0, totals.1, totals.2);
}
