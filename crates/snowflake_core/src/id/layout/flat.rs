//! A server has one number, however a layout splits it.
//!
//! Twitter's data center 11 and worker 26 are the same bits as worker 378 of `flat`. So everything that a server keeps,
//! compares and leases is in terms of a layout without data centers. A server can switch between two such layouts.

use super::{Field, FieldKind, Layout};

impl Layout {
    /// The layout with the same IDs and without data centers, if the data center is right above the worker; else this
    /// one.
    #[must_use]
    pub fn flat(self) -> Self {
        let (datacenter, worker) = (self.datacenter, self.worker);
        let is_above = datacenter.shift() == worker.shift() + worker.bits() || worker == Field::ABSENT;
        let has_room = datacenter.bits() + worker.bits() <= FieldKind::Worker.max_bits();
        if datacenter == Field::ABSENT || !is_above || !has_room {
            return self;
        }
        let shift = if worker == Field::ABSENT { datacenter.shift } else { worker.shift };
        let joined = Field { bits: datacenter.bits + worker.bits, shift };
        Self { datacenter: Field::ABSENT, worker: joined, ..self }
    }

    /// The server with this data center and this worker, whose fields must have room for them.
    pub const fn flatten(&self, datacenter: u64, worker: u64) -> u64 {
        datacenter << self.worker.bits | worker
    }

    /// The data center and the worker of a server.
    pub const fn unflatten(&self, server: u64) -> (u64, u64) {
        (server >> self.worker.bits, server & self.worker.max())
    }

    /// The server that issued an ID.
    pub const fn server_of(&self, id: u64) -> u64 {
        self.flatten(self.datacenter.get(id), self.worker.get(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(text: &str) -> Layout {
        text.parse().expect("a layout")
    }

    #[test]
    fn twitters_layout_is_flat_with_other_names_for_the_same_bits() {
        let twitter = layout("twitter");
        assert_eq!(twitter.flat(), layout("flat"));
        assert_eq!(twitter.flatten(11, 26), 378);
        assert_eq!(twitter.unflatten(378), (11, 26));
        assert_eq!((layout("flat").flatten(0, 378), layout("flat").unflatten(378)), (378, (0, 378)));
        assert_eq!([twitter, layout("flat")].map(|layout| layout.server_of(1_541_815_603_606_036_480)), [378; 2]);
    }

    #[test]
    fn a_layout_is_another_one_if_its_fields_are_not_one_below_the_other() {
        for text in ["t41 w5 d5 s12", "t41 d5 s12 w5", "js", "t20 d20 w20"] {
            assert_eq!(layout(text).flat(), layout(text), "{text}");
        }
        assert_eq!(layout("t41 d10 s12").flat(), layout("flat"), "only data centers are only workers");
        assert_eq!(layout("t33 d6 w6 s18").flat(), layout("t33 w12 s18"), "there is room for 31 bits");
    }

    proptest! {
        /// Wherever the fields are.
        #[test]
        fn a_flat_layout_issues_the_same_ids_and_no_two_servers_become_one(
            text in prop::sample::select(vec!["twitter", "t41 d3 w7 s12", "t41 w5 d5 s12", "t41 s12 d4 w6", "t20 d20 w20"]),
            (datacenter, worker, position) in (0_u64..8, 0_u64..32, 0_u64..1 << 20),
        ) {
            let original = layout(text);
            let server = original.flatten(datacenter, worker);
            prop_assert_eq!(original.unflatten(server), (datacenter, worker));
            let id = original.series(datacenter, worker).expect("numbers that fit").id_at(position);
            prop_assert_eq!(original.server_of(id), server);
            if original.flat() != original {
                prop_assert_eq!(original.flat().series(0, server).expect("one that fits").id_at(position), id);
                prop_assert_eq!(original.flat().issued_at(id), original.issued_at(id));
            }
        }
    }
}
