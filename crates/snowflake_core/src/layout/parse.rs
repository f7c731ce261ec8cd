//! The text of a layout: a preset's name, then settings.
//!
//! ```text
//! twitter
//! twitter epoch=2024-01-01T00:00:00Z
//! flat epoch=1704067200000
//! ```

use super::{FieldKind, Layout, PRESETS};
use crate::UnixMs;
use std::str::FromStr;

/// Why a text is not a layout. Each message names the token at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// The text does not begin with the name of a preset.
    #[error("\"{token}\" is not the name of a layout; known layouts are: {}", preset_list())]
    UnknownPreset {
        /// The first token.
        token: String,
    },
    /// The text is empty.
    #[error("A layout begins with a name, which is one of: {}", preset_list())]
    Empty,
    /// A token that is no setting.
    #[error("\"{token}\" is not a setting of a layout; the only setting is epoch=")]
    UnknownSetting {
        /// The token at fault.
        token: String,
    },
    /// A setting that stands twice.
    #[error("\"{token}\" sets {setting} a second time")]
    Repeated {
        /// The second token.
        token: String,
        /// What it sets.
        setting: &'static str,
    },
    /// An epoch that is neither Unix milliseconds nor an ISO 8601 time with a zone.
    #[error(
        "\"{token}\" is not an epoch: write Unix milliseconds or a time with a zone between the years 1970 and 9999, \
         such as epoch=2024-01-01T00:00:00Z"
    )]
    BadEpoch {
        /// The token at fault.
        token: String,
    },
}

fn preset_list() -> String {
    Layout::preset_names().collect::<Vec<_>>().join(", ")
}

impl FromStr for Layout {
    type Err = LayoutError;

    /// Reads a layout's text. Letter case does not matter in names; tokens are separated by white space.
    fn from_str(text: &str) -> Result<Self, LayoutError> {
        let mut tokens = text.split_whitespace();
        let name = tokens.next().ok_or(LayoutError::Empty)?;
        let preset = PRESETS
            .iter()
            .find(|preset| preset.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| LayoutError::UnknownPreset { token: name.to_owned() })?;

        let mut epoch = None;
        for token in tokens {
            match token.split_once('=') {
                Some((key, value)) if key.eq_ignore_ascii_case("epoch") => {
                    let at = parse_epoch(value).ok_or_else(|| LayoutError::BadEpoch { token: token.to_owned() })?;
                    if epoch.replace(at).is_some() {
                        return Err(LayoutError::Repeated { token: token.to_owned(), setting: "the epoch" });
                    }
                }
                _ => return Err(LayoutError::UnknownSetting { token: token.to_owned() }),
            }
        }
        Ok(Self::new(preset.fields, preset.unit_ms, epoch.unwrap_or(preset.epoch)))
    }
}

impl Layout {
    /// Reads what [`Display`](std::fmt::Display) wrote; `None` for anything else.
    pub fn from_spelled_out(text: &str) -> Option<Self> {
        let (mut fields, mut unit_ms, mut epoch) = (Vec::new(), 0, 0);
        for token in text.split(' ') {
            match token.split_once('=') {
                Some(("unit", value)) => unit_ms = value.strip_suffix("ms")?.parse().ok()?,
                Some(("epoch", value)) => epoch = parse_epoch(value)?,
                _ => {
                    let kind = FieldKind::from_letter(token.chars().next()?)?;
                    fields.push((kind, token[1..].parse().ok()?));
                }
            }
        }
        if fields.iter().try_fold(0_u32, |sum, (_, bits)| sum.checked_add(*bits))? > 63 || unit_ms == 0 {
            return None;
        }
        Some(Self::new(&fields, unit_ms, epoch)).filter(|layout| layout.to_string() == text)
    }
}

/// Unix milliseconds, or ISO 8601 with a zone, from 1970 to 9999.
fn parse_epoch(value: &str) -> Option<UnixMs> {
    let timestamp = if value.bytes().all(|byte| byte.is_ascii_digit()) {
        jiff::Timestamp::from_millisecond(value.parse().ok()?).ok()?
    } else {
        value.parse::<jiff::Timestamp>().ok()?
    };
    // An epoch between two milliseconds could not be told back exactly.
    if timestamp.subsec_nanosecond() % 1_000_000 != 0 {
        return None;
    }
    timestamp.as_millisecond().try_into().ok()
}
