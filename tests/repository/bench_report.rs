//! What `make bench` makes of its figures: tables and pictures. No server is needed.

use bench_report::{Better, Machine, Question, Report, chart, numbers, table};
use testbed::test;

const COST: Question = Question {
    part: "cost",
    case: "CPU time of one ID",
    unit: "ns",
    better: Better::Lower,
    reference: "snowflake_nextval()",
};
const RATE: Question = Question {
    part: "clients",
    case: "IDs a second",
    unit: "IDs/s",
    better: Better::Higher,
    reference: "snowflake_nextval()",
};

fn report() -> Report {
    let mut report = Report::new(Machine::default());
    report.add(&COST, "snowflake_nextval()", vec![21.0, 18.5, 22.5]);
    report.add(&COST, "nextval() & \"others\"", vec![217.0, 215.0, 236.0]);
    for (at, ours, theirs) in [(1, 4_000_000.0, 800_000.0), (64, 4_090_000.0, 512_345.0)] {
        report.add_at(&RATE, "snowflake_nextval()", at, vec![ours, ours * 0.98, ours * 1.02]);
        report.add_at(&RATE, "nextval()", at, vec![theirs]);
    }
    report
}

#[test]
fn a_table_has_the_median_the_spread_and_how_many_times_the_reference_that_is() {
    let expected = "\
| ns                   | median | least | most | ÷ snowflake_nextval() |
|----------------------|-------:|------:|-----:|----------------------:|
| snowflake_nextval()  |   21.0 |  18.5 | 22.5 |                 1.00× |
| nextval() & \"others\" |    217 |   215 |  236 |                 10.3× |
";
    assert_eq!(table::of(&report().answers()[0]), expected);
}

#[test]
fn a_table_of_what_was_varied_has_a_column_for_each_value() {
    let expected = "\
| IDs/s, by clients   |               1 |              64 |
|---------------------|----------------:|----------------:|
| snowflake_nextval() | 4.00M ±2% 1.00× | 4.09M ±2% 1.00× |
| nextval()           |  800k     0.20× |  512k     0.13× |
";
    assert!(table::of(&report().answers()[1]).ends_with(expected), "{}", table::of(&report().answers()[1]));
}

#[test]
fn nothing_is_divided_by_nothing() {
    let mut report = Report::new(Machine::default());
    report.add(&COST, "snowflake_nextval()", vec![0.0]);
    report.add(&COST, "nextval()", vec![3.17]);
    let answers = report.answers();
    let table = table::of(&answers[0]);
    assert!(!table.contains('×') && !table.contains("NaN") && !table.contains("inf"), "{table}");
    assert!(!chart::draw(&answers[0]).contains("NaN"));
}

#[test]
fn numbers_are_short_and_keep_three_digits() {
    let numbers =
        [0.0, 0.0123, 1.234, 9.999, 12.34, 217.4, 999.4, 4096.0, 24_576.0, 512_345.0, 4_090_000.0, 2.5e9, -3.0];
    let texts = numbers.map(numbers::number);
    let expected =
        ["0", "0.012", "1.23", "10.0", "12.3", "217", "999", "4,096", "24.6k", "512k", "4.09M", "2.50G", "-3.00"];
    assert_eq!(texts, expected);
    assert_eq!(
        [0.0, 0.05, 2.0, 2.5, 500.0, 2_000.0, 25_000.0, 1e7].map(numbers::round).join(" "),
        "0 0.05 2 2.5 500 2,000 25k 10M"
    );
    assert_eq!(numbers::value(99.97, "%"), "99.97");
    assert_eq!(numbers::grouped(1_000_000_000), "1,000,000,000");
}

#[test]
fn a_picture_names_every_contender_and_escapes_what_xml_reserves() {
    for answer in report().answers() {
        let picture = chart::draw(&answer);
        for contender in answer.contenders() {
            let name = contender.replace('&', "&amp;").replace('"', "&quot;");
            assert!(picture.contains(&format!(">{name}</text>")), "{name}");
        }
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
    }
}
