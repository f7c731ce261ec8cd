//! Numbers as people read them.

pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// The least and the most of them.
pub fn range(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &value| (least.min(value), most.max(value)))
}

/// Half of the range from the least to the most, as a share of the median; where there is more than one value.
pub fn spread(values: &[f64]) -> Option<String> {
    let (least, most) = range(values);
    let share = (most - least) / 2.0 / median(values).abs() * 100.0;
    (values.len() > 1 && share.is_finite()).then(|| format!("±{share:.0}%"))
}

/// How many times the second the first is; nothing where that makes no sense.
pub fn ratio(first: f64, second: f64) -> Option<f64> {
    (second > 0.0).then(|| first / second)
}

/// A value of a unit. Percents have two decimals: 99.97 is not 100.
pub fn value(value: f64, unit: &str) -> String {
    if unit == "%" { format!("{value:.2}") } else { number(value) }
}

/// A number with as many digits as matter.
pub fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        0.0..0.1 => format!("{value:.3}"),
        0.0..1e3 => three_digits(value),
        1e3..1e4 => separated(&format!("{value:.0}")),
        1e4..1e6 => three_digits(value / 1e3) + "k",
        1e6..1e9 => three_digits(value / 1e6) + "M",
        _ => three_digits(value / 1e9) + "G",
    }
}

/// A round number, as shown on an axis: without zeros behind the point.
pub fn round(value: f64) -> String {
    let text = number(value);
    let Some((whole, rest)) = text.split_once('.') else { return text };
    let digits = rest.trim_end_matches(char::is_alphabetic);
    let (decimals, unit) = (digits.trim_end_matches('0'), &rest[digits.len()..]);
    if decimals.is_empty() { format!("{whole}{unit}") } else { format!("{whole}.{decimals}{unit}") }
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0..9.995 => format!("{value:.2}"),
        0.0..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// 1234567 as 1,234,567.
pub fn grouped(number: u64) -> String {
    separated(&number.to_string())
}

fn separated(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) && !text.ends_with('-') {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
