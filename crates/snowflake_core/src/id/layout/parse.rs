//! The text of a layout: a preset's name, or fields, or both; then settings.
//!
//! ```text
//! flat
//! flat epoch=2024-01-01T00:00:00Z
//! t28 w24 s11 unit=1s epoch=2021-09-16T08:14:08Z
//! k8s t30 w22 s11
//! ```
//!
//! Everything omitted is as in the preset, or as in `flat`. Fields replace all fields of the preset.

use super::{END_OF_TIME, FieldKind, Layout, PRESETS, display_unit, years};
use crate::UnixMs;
use std::str::FromStr;

/// Why a text is not a layout. Each message names the invalid token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The text is empty.
    #[error("A layout begins with a name ({}) or a field such as t41", preset_names())]
    Empty,
    /// An unknown token.
    #[error(
        "\"{token}\" is neither the name of a layout ({}) nor a field such as t41, d5, w5, h8 or s12, nor unit= or epoch=",
        preset_names()
    )]
    Unknown {
        /// The invalid token.
        token: String,
    },
    /// A name that is not at the beginning.
    #[error("\"{token}\" is the name of a layout, and can only be the first token")]
    MisplacedName {
        /// The invalid token.
        token: String,
    },
    /// A repeated field or setting.
    #[error("\"{token}\" sets the {what} a second time")]
    Repeated {
        /// The second token.
        token: String,
        /// What it sets.
        what: &'static str,
    },
    /// A field that is too narrow or too wide.
    #[error("\"{token}\" is not a width: the field {} has 1 to {} bits", .kind.letter(), .kind.max_bits())]
    BadWidth {
        /// The invalid token.
        token: String,
        /// The field.
        kind: FieldKind,
    },
    /// Fields without a timestamp.
    #[error("\"{fields}\" has no timestamp: add a field such as t41")]
    NoTimestamp {
        /// All fields.
        fields: String,
    },
    /// More than 64 bits.
    #[error("\"{fields}\" has {sum} bits, and an ID has 64; its {timestamp_bits} bits of {} last {:.1} years",
        display_unit(*tick_ms), years(*timestamp_bits, *tick_ms))]
    TooManyBits {
        /// All fields.
        fields: String,
        /// The sum of their bits.
        sum: u32,
        /// How many are the timestamp's.
        timestamp_bits: u32,
        /// Milliseconds in a tick.
        tick_ms: u32,
    },
    /// Timestamps that end after PostgreSQL's.
    #[error("\"t{timestamp_bits}\" of {} lasts {:.0} years, and a layout can last until about the year 287000",
        display_unit(*tick_ms), years(*timestamp_bits, *tick_ms))]
    TooLong {
        /// How many bits are the timestamp's.
        timestamp_bits: u32,
        /// Milliseconds in a tick.
        tick_ms: u32,
    },
    /// An invalid length of a tick.
    #[error("\"{token}\" is not a unit: write whole milliseconds from unit=1ms to unit=1000ms, or unit=1s")]
    BadUnit {
        /// The invalid token.
        token: String,
    },
    /// An epoch that is neither Unix milliseconds nor an ISO 8601 time with a zone.
    #[error(
        "\"{token}\" is not an epoch: write Unix milliseconds or a time with a zone between the years 1970 and 9999, \
         such as epoch=2024-01-01T00:00:00Z"
    )]
    BadEpoch {
        /// The invalid token.
        token: String,
    },
}

fn preset_names() -> String {
    PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>().join(", ")
}

impl FromStr for Layout {
    type Err = LayoutError;

    /// Reads a layout's text. Letter case does not matter; tokens are separated by ASCII's white space.
    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let mut tokens = text.split_ascii_whitespace().peekable();
        let preset = preset(tokens.peek().ok_or(LayoutError::Empty)?);
        if preset.is_some() {
            tokens.next();
        }
        let (mut fields, mut tick_ms, mut epoch) = (Vec::new(), None, None);
        for token in tokens {
            let bad = || token.to_owned();
            let once = |is_first: bool, what| {
                if is_first { Ok(()) } else { Err(LayoutError::Repeated { token: token.to_owned(), what }) }
            };
            match token.split_once('=') {
                Some((key, value)) if key.eq_ignore_ascii_case("unit") => {
                    let ms = parse_unit(value).ok_or_else(|| LayoutError::BadUnit { token: bad() })?;
                    once(tick_ms.replace(ms).is_none(), "unit")?;
                }
                Some((key, value)) if key.eq_ignore_ascii_case("epoch") => {
                    let at = parse_epoch(value).ok_or_else(|| LayoutError::BadEpoch { token: bad() })?;
                    once(epoch.replace(at).is_none(), "epoch")?;
                }
                _ => {
                    let (kind, bits) = parse_field(token)?;
                    once(fields.iter().all(|&(other, _)| other != kind), kind.name())?;
                    fields.push((kind, bits));
                }
            }
        }
        let fields = match preset {
            _ if !fields.is_empty() => &fields,
            Some(preset) => preset.fields,
            None => return Err(LayoutError::Empty),
        };
        let base = preset.unwrap_or(&PRESETS[0]);
        layout_of(fields, tick_ms.unwrap_or(base.tick_ms), epoch.unwrap_or(base.epoch))
    }
}

impl Layout {
    /// Reads what [`Display`](std::fmt::Display) wrote; `None` for anything else.
    pub fn from_spelled_out(text: &str) -> Option<Self> {
        text.parse().ok().filter(|layout: &Self| layout.to_string() == text)
    }
}

fn preset(token: &str) -> Option<&'static super::Preset> {
    PRESETS.iter().find(|preset| preset.name.eq_ignore_ascii_case(token))
}

/// A layout of these fields, if there can be one.
pub(super) fn layout_of(fields: &[(FieldKind, u32)], tick_ms: u32, epoch: UnixMs) -> Result<Layout, LayoutError> {
    let text = || fields.iter().map(|(kind, bits)| format!("{}{bits}", kind.letter())).collect::<Vec<_>>().join(" ");
    let timestamp = fields.iter().find(|(kind, _)| *kind == FieldKind::Timestamp);
    let &(_, timestamp_bits) = timestamp.ok_or_else(|| LayoutError::NoTimestamp { fields: text() })?;
    let sum = fields.iter().map(|(_, bits)| bits).sum();
    if sum > 64 {
        return Err(LayoutError::TooManyBits { fields: text(), sum, timestamp_bits, tick_ms });
    }
    let length_ms = u128::from(tick_ms) << timestamp_bits;
    if u128::from(epoch) + length_ms > u128::from(END_OF_TIME) {
        return Err(LayoutError::TooLong { timestamp_bits, tick_ms });
    }
    Ok(Layout::new(fields, tick_ms, epoch))
}

/// A letter and a width in bits: `t41`.
fn parse_field(token: &str) -> Result<(FieldKind, u32), LayoutError> {
    let mut letters = token.chars();
    let letter = letters.next().map(|letter| letter.to_ascii_lowercase());
    let kind = FieldKind::ALL.into_iter().find(|kind| Some(kind.letter()) == letter);
    let width = letters.as_str();
    match kind {
        Some(kind) if !width.is_empty() && width.bytes().all(|byte| byte.is_ascii_digit()) => {
            let bits = width.parse().ok().filter(|bits| (1..=kind.max_bits()).contains(bits));
            bits.map(|bits| (kind, bits)).ok_or_else(|| LayoutError::BadWidth { token: token.to_owned(), kind })
        }
        _ if preset(token).is_some() => Err(LayoutError::MisplacedName { token: token.to_owned() }),
        _ => Err(LayoutError::Unknown { token: token.to_owned() }),
    }
}

/// Whole milliseconds, from 1 ms to 1 s.
fn parse_unit(value: &str) -> Option<u32> {
    let value = value.to_ascii_lowercase();
    let (digits, factor) = match value.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (value.strip_suffix('s')?, 1000),
    };
    let number = Some(digits).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?.parse::<u32>();
    number.ok()?.checked_mul(factor).filter(|ms| (1..=1000).contains(ms))
}

/// Unix milliseconds, or ISO 8601 with a zone, from 1970 to 9999.
fn parse_epoch(value: &str) -> Option<UnixMs> {
    let timestamp = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        jiff::Timestamp::from_millisecond(value.parse().ok()?).ok()?
    } else {
        value.parse::<jiff::Timestamp>().ok()?
    };
    // An epoch between two milliseconds could not be written exactly.
    if timestamp.subsec_nanosecond() % 1_000_000 != 0 {
        return None;
    }
    timestamp.as_millisecond().try_into().ok()
}
