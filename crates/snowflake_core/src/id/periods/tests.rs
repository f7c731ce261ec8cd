#![expect(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]

use super::*;
use proptest::prelude::*;

const DAY: u64 = 86_400;

fn ms(time: &str) -> UnixMs {
    let timestamp: Timestamp = time.parse().expect("a valid time");
    timestamp.as_millisecond().try_into().expect("a time after 1970")
}

fn layout(text: &str) -> Layout {
    text.parse().expect("a valid layout")
}

/// Where the period that holds a time begins, and where the two after it do.
fn starts(every: Every, now: &str) -> [String; 3] {
    [0, 1, 2].map(|nth| crate::display_time(every.start(ms(now), nth)))
}

#[test]
fn an_interval_is_whole_months_or_whole_seconds() {
    assert_eq!(Every::new(12, 0, 0), Some(Every::Months(12)));
    assert_eq!(Every::new(0, 7, 0), Some(Every::Seconds(7 * DAY)));
    assert_eq!(Every::new(0, 1, 3_600_000_000), Some(Every::Seconds(25 * 3600)));
    assert_eq!(Every::new(0, 1, -3_600_000_000), Some(Every::Seconds(23 * 3600)));
    assert_eq!(Every::new(0, i32::MAX, i64::MAX).map(|_| ()), None, "a fraction of a second");
    for (months, days, micros) in [
        (0, 0, 0),
        (1, 1, 0),
        (1, 0, 1),
        (-1, 0, 0),
        (0, -1, 0),
        (0, 0, -1_000_000),
        (0, 0, 999_999),
        (0, 0, 1_500_000),
        (i32::MAX, i32::MAX, i64::MAX), // Infinity, as PostgreSQL 17 has it.
    ] {
        assert_eq!(Every::new(months, days, micros), None, "{months} {days} {micros}");
    }
}

#[test]
fn months_are_those_of_the_calendar() {
    assert_eq!(
        starts(Every::Months(1), "2024-01-31T23:59:59.999Z"),
        ["2024-01-01T00:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"]
    );
    assert_eq!(
        starts(Every::Months(1), "2024-02-29T12:00:00Z"),
        ["2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z", "2024-04-01T00:00:00Z"]
    );
    assert_eq!(
        starts(Every::Months(3), "2026-12-31T00:00:00Z"),
        ["2026-10-01T00:00:00Z", "2027-01-01T00:00:00Z", "2027-04-01T00:00:00Z"]
    );
    assert_eq!(
        starts(Every::Months(12), "2026-01-01T00:00:00Z"),
        ["2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", "2028-01-01T00:00:00Z"]
    );
    // Counted from January 2000, before it too.
    assert_eq!(
        starts(Every::Months(5), "1999-12-31T00:00:00Z"),
        ["1999-08-01T00:00:00Z", "2000-01-01T00:00:00Z", "2000-06-01T00:00:00Z"]
    );
    assert_eq!(
        starts(Every::Months(6), "1970-08-01T00:00:00Z"),
        ["1970-07-01T00:00:00Z", "1971-01-01T00:00:00Z", "1971-07-01T00:00:00Z"]
    );
}

#[test]
fn days_begin_at_midnight_in_utc_and_weeks_on_monday() {
    assert_eq!(
        starts(Every::Seconds(DAY), "2024-02-28T23:59:59.999Z"),
        ["2024-02-28T00:00:00Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"]
    );
    assert_eq!(
        starts(Every::Seconds(7 * DAY), "2026-01-01T00:00:00Z"),
        ["2025-12-29T00:00:00Z", "2026-01-05T00:00:00Z", "2026-01-12T00:00:00Z"]
    );
    assert_eq!(
        starts(Every::Seconds(6 * 3600), "2000-12-31T06:00:00Z"),
        ["2000-12-31T06:00:00Z", "2000-12-31T12:00:00Z", "2000-12-31T18:00:00Z"]
    );
}

#[test]
fn a_period_reaches_from_the_epoch_at_the_earliest_to_the_end_of_the_layout_at_the_latest() {
    let twitter = layout("twitter");
    let year = Every::Months(12);
    let at = |time, ahead| ids(&twitter, year, ms(time), ahead);
    let in_2011 = twitter.min_id(twitter.first_tick_from(ms("2011-01-01T00:00:00Z")));
    assert_eq!(at("2010-11-05T00:00:00Z", 0), Ok(vec![0..in_2011]));
    assert_eq!(at("2009-11-05T00:00:00Z", 1), Ok(vec![0..0, 0..in_2011]));
    let in_2080 = twitter.min_id(twitter.first_tick_from(ms("2080-01-01T00:00:00Z")));
    assert_eq!(at("2080-01-01T00:00:00Z", 0), Ok(vec![in_2080..1 << 63]));
    assert_eq!(at("2080-01-01T00:00:00Z", 1), Err(twitter.last_time()));
    // A layout of 64 bits ends where its IDs become negative.
    let discord = layout("discord");
    assert_eq!(ids(&discord, year, ms("2084-09-05T00:00:00Z"), 0).expect("a part of 2084")[0].end, 1 << 63);
    let last = discord.time_of((1 << 41) - 1);
    assert_eq!(ids(&discord, year, ms("2084-09-05T00:00:00Z"), 1), Err(last));
    for longest in [Every::Months(u32::MAX), Every::Seconds(u64::MAX)] {
        assert_eq!(ids(&twitter, longest, ms("2026-01-01T00:00:00Z"), 0), Ok(vec![0..1 << 63]));
    }
}

#[test]
fn what_is_covered_is_left_out() {
    assert_eq!(uncovered(10..20, &[]), [10..20]);
    assert_eq!(uncovered(10..20, &[0..10, 20..30]), [10..20]);
    assert_eq!(uncovered(10..20, &[0..12, 14..15, 18..30]), [12..14, 15..18]);
    assert_eq!(uncovered(10..20, &[10..15, 15..20]), []);
    assert_eq!(uncovered(10..20, &[0..30]), []);
    assert_eq!(uncovered(0..0, &[]), []);
    assert_eq!(uncovered(10..20, &[0..5, 25..30]), [10..20]);
}

#[test]
fn a_name_says_when_its_partition_begins_as_briefly_as_it_can() {
    assert_eq!(suffix(ms("2026-01-01T00:00:00.657Z")), "20260101");
    assert_eq!(suffix(ms("2026-01-01T06:00:00Z")), "20260101_0600");
    assert_eq!(suffix(ms("2026-01-01T06:00:01Z")), "20260101_060001");
    assert_eq!(suffix(UnixMs::MAX), "18446744073709551615");
}

fn every() -> impl Strategy<Value = Every> {
    prop_oneof![(1..2000_u32).prop_map(Every::Months), (1..1_000_000_000_u64).prop_map(Every::Seconds)]
}

proptest! {
    #[test]
    fn periods_follow_each_other_and_the_first_holds_the_present(
        every in every(), now in 0..7_258_118_400_000_u64, ahead in 0..10_u32,
    ) {
        prop_assert!(every.start(now, 0) <= now && now < every.start(now, 1));
        // A later call in the same period, or in the next, gets the same periods.
        prop_assert_eq!(every.start(every.start(now, 1) - 1, ahead), every.start(now, ahead));
        prop_assert_eq!(every.start(every.start(now, 1), ahead), every.start(now, ahead + 1));
    }

    #[test]
    fn the_ids_of_periods_leave_no_gap_and_are_those_issued_in_them(
        every in every(), now in 1_300_000_000_000..1_800_000_000_000_u64, ahead in 0..10_u32,
    ) {
        let layout = layout("twitter");
        if let Ok(ranges) = ids(&layout, every, now, ahead) {
            prop_assert_eq!(ranges.len(), ahead as usize + 1);
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            let tick = layout.tick_at(now).expect("a time of the layout");
            prop_assert!(ranges[0].contains(&layout.min_id(tick)));
            for (nth, range) in (0..).zip(ranges).filter(|(_, range)| !range.is_empty()) {
                prop_assert!(layout.issued_at(range.start) >= every.start(now, nth));
                prop_assert!(layout.issued_at(range.end - 1) < every.start(now, nth + 1));
            }
        }
    }

    #[test]
    fn what_is_covered_and_what_is_not_are_the_whole(
        start in 0..50_u64, length in 0..50_u64, mut cuts in prop::collection::vec(0..100_u64, 0..10),
    ) {
        cuts.sort_unstable();
        let covered: Vec<_> = cuts.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
        let wanted = start..start + length;
        let parts = uncovered(wanted.clone(), &covered);
        for number in 0..120 {
            let is_missing = wanted.contains(&number) && !covered.iter().any(|range| range.contains(&number));
            let holding = parts.iter().filter(|part| part.contains(&number)).count();
            prop_assert_eq!(holding, usize::from(is_missing), "{}", number);
        }
    }
}
