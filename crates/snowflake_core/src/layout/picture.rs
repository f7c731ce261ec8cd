//! Draws an ID's bits, for people.

use super::{FieldKind, Layout};
use crate::display_time;
use std::fmt::Write;

impl Layout {
    /// Draws the 64 bits of an ID grouped by field, and under them what each field says. At most 80 columns wide.
    ///
    /// ```text
    /// 0 00101010110010110100001000111110110001000 01011 11010 000000000000
    /// - ttttttttttttttttttttttttttttttttttttttttt ddddd wwwww ssssssssssss
    /// t timestamp  367597485448 = 2022-06-28T16:07:40.105Z
    /// d datacenter 11
    /// w worker     26
    /// s sequence   0
    /// ```
    pub fn picture(&self, id: u64) -> String {
        let fields = self.fields();
        let used: u32 = fields.iter().map(|(_, field)| field.bits).sum();
        let mut groups = Vec::new();
        if used < 64 {
            groups.push(('-', 64 - used, id >> used));
        }
        groups.extend(fields.iter().map(|(kind, field)| (kind.letter(), field.bits, field.get(id))));

        let bits: Vec<_> =
            groups.iter().map(|&(_, width, value)| format!("{value:0>width$b}", width = width as usize)).collect();
        let letters: Vec<_> =
            groups.iter().map(|&(letter, width, _)| letter.to_string().repeat(width as usize)).collect();
        let mut picture = format!("{}\n{}", bits.join(" "), letters.join(" "));
        for (kind, field) in fields {
            let name = match kind {
                FieldKind::Timestamp => "timestamp",
                FieldKind::Datacenter => "datacenter",
                FieldKind::Worker => "worker",
                FieldKind::Sequence => "sequence",
            };
            // Writing to a String can't fail.
            let _ = write!(picture, "\n{} {name:<10} {}", kind.letter(), field.get(id));
            if kind == FieldKind::Timestamp {
                let _ = write!(picture, " = {}", display_time(self.issued_at(id)));
            }
        }
        picture
    }
}
