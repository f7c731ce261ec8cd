//! Draws the bits of an ID.

use super::{FieldKind, Layout, display_unit};
use crate::display_time;
use std::fmt::Write;

impl Layout {
    /// Draws the 64 bits of an ID grouped by field, and the meaning of each field below. At most 80 columns wide.
    ///
    /// ```text
    /// 0 00101010110010110100001000111110110001000 01011 11010 000000000000
    /// - ttttttttttttttttttttttttttttttttttttttttt ddddd wwwww ssssssssssss
    /// t timestamp    367597485448 ticks of 1ms after 2010-11-04T01:42:54.657Z
    ///                = 2022-06-28T16:07:40.105Z
    /// d data center  11 of 0 to 31
    /// w worker       26 of 0 to 31
    /// s sequence     0 of 0 to 4095 in this tick
    /// ```
    pub fn explain(&self, id: u64) -> String {
        let fields = self.fields();
        let unused = 64 - self.bits();
        let mut groups = Vec::new();
        if unused > 0 {
            groups.push(('-', unused, id >> self.bits()));
        }
        groups.extend(fields.iter().map(|(kind, field)| (kind.letter(), field.bits(), field.get(id))));

        let bits: Vec<_> =
            groups.iter().map(|&(_, width, value)| format!("{value:0>width$b}", width = width as usize)).collect();
        let letters: Vec<_> =
            groups.iter().map(|&(letter, width, _)| letter.to_string().repeat(width as usize)).collect();
        let mut text = format!("{}\n{}", bits.join(" "), letters.join(" "));
        for (kind, field) in fields {
            let value = field.get(id);
            let (letter, name) = (kind.letter(), kind.name());
            let meaning = match kind {
                FieldKind::Timestamp => format!(
                    "{value} ticks of {} after {}\n{:15}= {}",
                    display_unit(self.tick_ms),
                    display_time(self.epoch),
                    "",
                    display_time(self.issued_at(id))
                ),
                FieldKind::Sequence => format!("{value} of 0 to {} in this tick", field.max()),
                FieldKind::Datacenter | FieldKind::Worker | FieldKind::Tag => {
                    format!("{value} of 0 to {}", field.max())
                }
            };
            // Writing to a String can't fail.
            let _ = write!(text, "\n{letter} {name:<12} {meaning}");
        }
        text
    }
}
