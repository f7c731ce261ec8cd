use super::*;

mod replacement;

fn layout(text: &str) -> Layout {
    text.parse().expect("a valid layout")
}

fn ms(time: &str) -> UnixMs {
    let timestamp: jiff::Timestamp = time.parse().expect("a valid time");
    timestamp.as_millisecond().try_into().expect("a time after 1970")
}

/// IDs of other systems with what their publishers say of them.
fn known_answers() -> impl Iterator<Item = [&'static str; 7]> {
    let lines = include_str!("../../../tests/known-answers.tsv").lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split('\t').collect::<Vec<_>>().try_into().expect(line))
}

/// An ID as a bigint: an ID of 64 bits can be negative.
fn id_of(text: &str) -> u64 {
    text.parse::<i64>().expect("a bigint").cast_unsigned()
}

#[test]
fn published_ids_decode_to_their_published_parts_and_compose_back() {
    for line in known_answers() {
        let [id, text, time, datacenter, worker, sequence, _] = line;
        let (layout, id) = (layout(text), id_of(id));
        let number = |text: &str| text.parse::<u64>().ok();
        let issued_at = ms(&format!("{}Z", time.replace(' ', "T")));
        let (datacenter, worker, sequence) = (number(datacenter), number(worker), number(sequence));
        assert_eq!(layout.unpack(id), Parts { issued_at, datacenter, worker, tag: None, sequence }, "{line:?}");
        let given = |number: Option<u64>| number.unwrap_or(0).cast_signed();
        let packed = layout.pack(issued_at, given(datacenter), given(worker), given(sequence));
        assert_eq!(packed, Ok(id), "{line:?}");
    }
    // Of these, nobody has published an ID with its parts.
    let unknown = ["flat", "leaf", "uid", "k8s", "game", "js", "pgedge", "sonyflake", "mastodon"];
    let known = |name: &str| known_answers().any(|[_, text, ..]| text == name);
    assert!(PRESETS.iter().all(|preset| known(preset.name) != unknown.contains(&preset.name)));
}

/// Each is written twice, so that a slip of the pen is noticed.
#[test]
fn every_preset_is_also_on_the_page_with_the_same_fields_unit_and_epoch() {
    let (_, page) =
        include_str!("../../../../../contrib/page/snowflake.js").split_once("const PRESETS = {\n").expect("a list");
    let (page, _) = page.split_once("  };").expect("its end");
    let line = |preset: &Preset| {
        let layout = preset.layout();
        let (name, fields, epoch) = (preset.name, layout.fields_text(), layout.epoch());
        format!("    {name}: {{ fields: \"{fields}\", tickMs: {}, epoch: {epoch} }},\n", layout.tick_ms())
    };
    assert_eq!(page, PRESETS.iter().map(line).collect::<String>());
}

#[test]
fn every_preset_is_found_by_its_name_and_has_a_source() {
    for preset in PRESETS {
        let Preset { name, source, .. } = preset;
        assert_eq!(name.parse(), Ok(preset.layout()), "{name}");
        assert!(!source.is_empty() && source.is_ascii(), "{name}: databases have many encodings");
    }
    assert!(layout("js").max_id() < 1 << 53);
    assert_eq!(layout("k8s").workers(), 0..=16_777_215);
}

/// docs/layouts.md shows it for each.
#[test]
fn a_layout_lasts_as_long_as_its_timestamps_do() {
    for (text, last, years) in [
        ("twitter", "2080-07-10T17:30:30.208Z", "69.7"),
        ("uid", "2024-11-20T13:24:15Z", "8.5"),
        ("sonyflake", "2188-11-16T03:28:58.87Z", "174.2"),
        ("mastodon", "281474976710655 ms after 1970", "8919.6"),
    ] {
        assert_eq!(display_time(layout(text).last_time()), last, "{text}");
        assert_eq!(format!("{:.1}", layout(text).years()), years, "{text}");
    }
}

#[test]
fn a_layout_without_data_centers_decodes_none() {
    let parts = layout("flat").unpack(1541815603606036480);
    assert_eq!(parts.datacenter, None);
    assert_eq!(parts.worker, Some(378), "flat joins Twitter's data center 11 and worker 26 to 11 * 32 + 26");
}

#[test]
fn a_layout_spells_itself_out() {
    assert_eq!(layout("twitter").to_string(), "t41 d5 w5 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z");
    assert_eq!(
        layout("  FLAT\tEpoch=2024-01-01T08:00:00+08:00 ").to_string(),
        "t41 w10 s12 unit=1ms epoch=2024-01-01T00:00:00Z"
    );
    assert_eq!(layout("flat epoch=1704067200000"), layout("flat epoch=2024-01-01T00:00:00Z"));
    assert_eq!(layout("k8s").to_string(), "t28 w24 s11 unit=1s epoch=2021-09-16T08:14:08Z");
    assert_eq!(layout("sonyflake unit=100MS").to_string(), "t39 s8 w16 unit=100ms epoch=2014-09-01T00:00:00Z");
}

#[test]
fn what_a_text_does_not_say_is_as_in_its_preset_or_in_flat() {
    assert_eq!(layout("t41 D5 w5 s12"), layout("twitter"));
    assert_eq!(layout("unit=1ms t41 w10 s12"), layout("flat"));
    assert_eq!(layout("k8s t30 w22 s11").to_string(), "t30 w22 s11 unit=1s epoch=2021-09-16T08:14:08Z");
    assert_eq!(layout("uid epoch=0 unit=10ms").to_string(), "t28 w22 s13 unit=10ms epoch=1970-01-01T00:00:00Z");
    assert_eq!(layout("s12 w10 t41").fields_text(), "s12 w10 t41", "any order, for decoding");
    assert_eq!(layout("t1").fields_text(), "t1");
}

#[test]
fn a_text_that_is_no_layout_is_refused_by_the_token_at_fault() {
    let names = "flat, twitter, leaf, uid, k8s, game, js, pgedge, pgactive, pgdog, pgdog_compact, clickhouse, tsid, \
                 sonyflake, instagram, discord, mastodon";
    let unknown = |token: &str| {
        format!(
            "\"{token}\" is neither the name of a layout ({names}) nor a field such as t41, d5, w5, h8 or s12, nor unit= or \
             epoch="
        )
    };
    let empty = format!("A layout begins with a name ({names}) or a field such as t41");
    let width = |token: &str, field: &str| format!("\"{token}\" is not a width: the field {field} bits");
    for (text, message) in [
        ("", empty.clone()),
        ("epoch=0", empty),
        ("twiter", unknown("twiter")),
        ("twitter t", unknown("t")),
        ("twitter t-1", unknown("t-1")),
        ("twitter x5", unknown("x5")),
        ("twitter ticks=1", unknown("ticks=1")),
        ("twitter flat", "\"flat\" is the name of a layout, and can only be the first token".into()),
        ("twitter epoch=1 epoch=2", "\"epoch=2\" sets the epoch a second time".into()),
        ("unit=1s t41 unit=1s", "\"unit=1s\" sets the unit a second time".into()),
        ("t41 w5 w6", "\"w6\" sets the worker a second time".into()),
        ("t0 w5 s5", width("t0", "t has 1 to 63")),
        ("t64", width("t64", "t has 1 to 63")),
        ("t10 s32", width("s32", "s has 1 to 31")),
        ("t41 w99999999999", width("w99999999999", "w has 1 to 31")),
        ("w10 s12", "\"w10 s12\" has no timestamp: add a field such as t41".into()),
        // Published as a layout that lasts 93 years.
        ("t37 w20 s16", "\"t37 w20 s16\" has 73 bits, and an ID has 64; its 37 bits of 1ms last 4.4 years".into()),
        (
            "t63 unit=1s",
            "\"t63\" of 1s lasts 292277024627 years, and a layout can last until about the year 287000".into(),
        ),
    ] {
        assert_eq!(text.parse::<Layout>().expect_err(text).to_string(), message);
    }
    for unit in ["", "1", "ms", "0ms", "1001ms", "2s", "0.5s", "-1ms", "+1ms", "1m", "99999999999s", "1 ms"] {
        let token = format!("unit={unit}").split(' ').next().unwrap().to_owned();
        assert_eq!(format!("flat unit={unit}").parse::<Layout>(), Err(LayoutError::BadUnit { token }));
    }
    for epoch in [
        "",
        "yesterday",
        "-1",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2024-01-01T00:00:00.0001Z",
        "1969-12-31T23:59:59Z",
        "99999999999999999999",
        "253402300800000",
    ] {
        let token = format!("epoch={epoch}");
        assert_eq!(format!("flat {token}").parse::<Layout>(), Err(LayoutError::BadEpoch { token }));
    }
}

#[test]
fn a_layout_that_can_only_be_decoded_says_why() {
    for (text, message) in [
        (
            "discord",
            "\"t42 d5 w5 s12\" has 64 bits, and an ID that is issued has at most 63; its timestamps last 139.4 years",
        ),
        ("w10 t41", "The timestamp is not the highest field of \"w10 t41\", so IDs would not sort by time"),
    ] {
        let layout = layout(text);
        assert_eq!(layout.series(0, 0).expect_err(text).to_string(), message);
        assert_eq!(layout.check_issuing().expect_err(text).to_string(), message);
    }
}

#[test]
fn a_worker_or_data_center_that_does_not_fit_is_refused_with_the_range() {
    let worker = |value| SeriesError::Number(FieldKind::Worker, OutOfRange { value, range: (0, 31) });
    let datacenter = |value, max| SeriesError::Number(FieldKind::Datacenter, OutOfRange { value, range: (0, max) });
    assert_eq!(layout("twitter").series(0, 32), Err(worker(32)));
    assert_eq!(layout("twitter").series(32, 0), Err(datacenter(32, 31)));
    assert_eq!(layout("flat").series(1, 0), Err(datacenter(1, 0)), "flat has no data centers");
    assert!(layout("flat").series(0, 1023).is_ok());
    assert_eq!(worker(32).to_string(), "worker 32 is outside 0..31");
}

#[test]
fn ids_of_a_series_carry_its_worker_and_sort_as_their_positions() {
    let layout = layout("twitter");
    let series = layout.series(11, 26).expect("both fit");
    let positions = [0, 1, 4095, 4096, 4097, (layout.last_tick() << 12) | 4095];
    for position in positions {
        let parts = layout.unpack(series.id_at(position));
        let expected = Parts {
            issued_at: layout.time_of(position >> 12),
            datacenter: Some(11),
            worker: Some(26),
            tag: None,
            sequence: Some(position & 4095),
        };
        assert_eq!(parts, expected);
    }
    assert!(positions.map(|position| series.id_at(position)).is_sorted());
}

#[test]
fn a_tag_is_beside_what_makes_an_id_unique_and_sorts_with_the_ids_only_below_the_sequence() {
    for (text, sorts) in [("t41 w5 s9 h8", true), ("t41 w5 h8 s9", false), ("t41 h8 w5 s9", false), ("flat", true)] {
        let layout = layout(text);
        assert_eq!(layout.sorts_within_ticks(), sorts, "{text}");
        let series = layout.series(0, 26).expect("it fits");
        let tags = layout.tags();
        for (position, tag) in [(7 << 9 | 3, 0), (7 << 9 | 4, *tags.end())] {
            let id = series.id_at(position) | layout.tag_bits(tag.cast_signed()).expect("it fits");
            let parts = layout.unpack(id);
            assert_eq!((parts.worker, parts.tag.unwrap_or(0)), (Some(26), tag), "{text}");
            assert_eq!(layout.position(id), position, "{text}");
            assert!(id <= layout.max_id());
        }
        for outside in [-1, tags.end().cast_signed() + 1] {
            let misfit = OutOfRange { value: outside, range: (0, *tags.end()) };
            assert_eq!(layout.tag_bits(outside), Err(misfit), "{text}");
        }
    }
}

#[test]
fn the_last_id_of_a_63_bit_layout_is_the_largest_bigint() {
    let layout = layout("twitter");
    let series = layout.series(31, 31).expect("both fit");
    assert_eq!(series.id_at((layout.last_tick() << 12) | 4095), i64::MAX as u64);
}

#[test]
fn a_time_outside_the_layout_has_no_tick() {
    let layout = layout("twitter");
    let epoch = layout.epoch();
    assert_eq!(layout.tick_at(epoch - 1), Err(TimeError::BeforeEpoch { epoch }));
    assert_eq!(layout.tick_at(epoch), Ok(0));
    let last = layout.last_time();
    assert_eq!(display_time(last), "2080-07-10T17:30:30.208Z");
    assert_eq!(layout.tick_at(last), Ok(layout.last_tick()));
    assert_eq!(layout.tick_at(last + 1), Err(TimeError::AfterEnd { last }));
    assert_eq!((layout.first_tick_from(last), layout.end()), (layout.last_tick(), last + 1));
}

#[test]
fn a_tick_has_an_id_for_each_number_of_the_sequence() {
    let lowest = layout("flat");
    assert_eq!((lowest.sequence_bits(), lowest.ids_per_tick(), lowest.sequence_is_lowest()), (12, 4096, true));
    let higher = layout("t41 s10 w12");
    assert_eq!((higher.sequence_bits(), higher.ids_per_tick(), higher.sequence_is_lowest()), (10, 1024, false));
}

#[test]
fn the_first_tick_from_a_time_never_begins_before_it() {
    let layout = Layout { tick_ms: 10, ..layout("flat") };
    let epoch = layout.epoch();
    assert_eq!(layout.first_tick_from(epoch - 5), 0);
    assert_eq!(layout.first_tick_from(epoch), 0);
    assert_eq!(layout.first_tick_from(epoch + 1), 1);
    assert_eq!(layout.first_tick_from(epoch + 10), 1);
    assert_eq!(layout.first_tick_from(epoch + 11), 2);
    assert_eq!(layout.first_tick_from(u64::MAX), layout.last_tick() + 1);
    assert_eq!(layout.tick_at(epoch + 19), Ok(1));
}

#[test]
fn an_explanation_shows_every_bit_under_its_field() {
    assert_eq!(
        layout("twitter").explain(1541815603606036481),
        "\
0 00101010110010110100001000111110110001000 01011 11010 000000000001
- ttttttttttttttttttttttttttttttttttttttttt ddddd wwwww ssssssssssss
t timestamp    367597485448 ticks of 1ms after 2010-11-04T01:42:54.657Z
               = 2022-06-28T16:07:40.105Z
d data center  11 of 0 to 31
w worker       26 of 0 to 31
s sequence     1 of 0 to 4095 in this tick"
    );
    let widest = layout("s16 t41 w4 d3").explain(u64::MAX);
    assert!(widest.lines().all(|line| line.len() <= 80), "{widest}");
}

#[test]
fn a_layout_may_reach_the_end_of_time_and_no_further() {
    let ending_at = |end| parse::layout_of(&[(FieldKind::Timestamp, 41)], 1, end - (1 << 41));
    assert_eq!(ending_at(END_OF_TIME).map(|layout| layout.end()), Ok(END_OF_TIME));
    assert!(ending_at(END_OF_TIME + 1).is_err());
}
