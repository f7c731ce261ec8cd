//! Every layout there can be: what holds of all of them.

#![cfg(not(loom))]

use proptest::prelude::*;
use snowflake_core::id::layout::{FieldKind, Layout};

/// Fields in random order, of random widths, with 64 bits at most, and a random unit and epoch.
fn layouts() -> impl Strategy<Value = Layout> {
    let letters = Just(['t', 'd', 'w', 'h', 's']).prop_shuffle();
    let widths = (1..=48_u32, 0..=31_u32, 0..=31_u32, 0..=16_u32, 0..=31_u32);
    (letters, widths, 1..=1000_u32, 0..=253_402_300_799_999_u64).prop_filter_map(
        "a layout",
        |(letters, (t, d, w, h, s), unit, epoch)| {
            let width = |letter| match letter {
                't' => t,
                'd' => d,
                'w' => w,
                'h' => h,
                _ => s,
            };
            let fields: Vec<_> =
                letters.into_iter().filter(|&l| width(l) > 0).map(|l| format!("{l}{}", width(l))).collect();
            format!("{} unit={unit}ms epoch={epoch}", fields.join(" ")).parse().ok()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, max_global_rejects: 1_000_000, failure_persistence: None,
        ..ProptestConfig::default() })]

    #[test]
    fn an_id_that_is_taken_apart_can_be_put_together_again(layout in layouts(), bits: u64) {
        let id = bits & layout.max_id();
        let parts = layout.unpack(id);
        let given = |number: Option<u64>| number.unwrap_or(0).cast_signed();
        let packed = layout.pack(parts.issued_at, given(parts.datacenter), given(parts.worker), given(parts.sequence));
        let tag = layout.tag_bits(given(parts.tag)).unwrap();
        prop_assert_eq!(packed.map(|packed| packed | tag), Ok(id));
    }

    #[test]
    fn the_lowest_id_of_a_tick_is_the_lowest(layout in layouts(), bits: u64) {
        let id = bits & layout.max_id();
        let tick = layout.tick_at(layout.issued_at(id)).unwrap();
        let lowest = layout.min_id(tick);
        prop_assert!(lowest <= id && layout.issued_at(lowest) == layout.issued_at(id));
        if layout.sorts_by_time() && lowest > 0 {
            prop_assert!(layout.issued_at(lowest - 1) < layout.issued_at(lowest));
        }
    }

    /// A time in a tick, wherever in it, is that tick's.
    #[test]
    fn a_time_lies_in_the_tick_that_contains_it(layout in layouts(), bits: u64, ms: u64) {
        let tick = layout.tick_at(layout.issued_at(bits & layout.max_id())).unwrap();
        prop_assert_eq!(layout.tick_at(layout.time_of(tick) + ms % layout.tick_ms()), Ok(tick));
        prop_assert_eq!(layout.first_tick_from(layout.time_of(tick)), tick);
        prop_assert_eq!(layout.first_tick_from(layout.time_of(tick) + 1), tick + 1);
    }

    #[test]
    fn a_layout_is_read_back_from_what_it_says_of_itself(layout in layouts()) {
        let text = layout.to_string();
        prop_assert_eq!(Layout::from_spelled_out(&text), Some(layout));
        prop_assert!(text.len() <= 100, "the state file has room for so many: {text}");
    }

    /// Positions count all IDs of a worker, in order.
    #[test]
    fn ids_that_are_issued_carry_their_worker_sort_as_their_positions_and_fit_a_bigint(
        layout in layouts(), datacenter: u32, worker: u32, position: u64,
    ) {
        let fit = |number: u32, last: u64| u64::from(number) % (last + 1);
        let datacenter = fit(datacenter, *layout.datacenters().end());
        let worker = fit(worker, *layout.workers().end());
        let can_issue = layout.bits() <= 63 && layout.fields_text().starts_with('t');
        let series = layout.series(datacenter, worker);
        prop_assert_eq!(series.is_ok(), can_issue);
        let Ok(series) = series else { return Ok(()) };
        let last = (layout.last_tick() << layout.sequence_bits()) + (1 << layout.sequence_bits()) - 1;
        let position = position % last;
        let (id, next) = (series.id_at(position), series.id_at(position + 1));
        prop_assert!(id < next && i64::try_from(next).is_ok());
        prop_assert_eq!(layout.position(id), position);
        let parts = layout.unpack(id);
        prop_assert_eq!(layout.tick_at(parts.issued_at), Ok(position >> layout.sequence_bits()));
        prop_assert_eq!(parts.datacenter.unwrap_or(0), datacenter);
        prop_assert_eq!(parts.worker.unwrap_or(0), worker);
        prop_assert_eq!(parts.sequence.unwrap_or(0), position & ((1 << layout.sequence_bits()) - 1));
    }

    /// One past the last number is refused, in every field and where there is none.
    #[test]
    fn a_number_that_does_not_fit_is_refused(layout in layouts(), below in i64::MIN..0) {
        let time = layout.epoch();
        for (kind, last) in [(FieldKind::Datacenter, *layout.datacenters().end()), (FieldKind::Worker, *layout.workers().end())] {
            for wrong in [last.cast_signed() + 1, i64::MAX, below] {
                let number = |of: FieldKind| if of == kind { wrong } else { 0 };
                prop_assert!(layout.pack(time, number(FieldKind::Datacenter), number(FieldKind::Worker), 0).is_err());
            }
        }
        prop_assert!(layout.pack(time, 0, 0, 1 << layout.sequence_bits()).is_err());
    }
}
