use super::*;

fn layout(text: &str) -> Layout {
    text.parse().expect("a valid layout")
}

fn ms(time: &str) -> UnixMs {
    let timestamp: jiff::Timestamp = time.parse().expect("a valid time");
    timestamp.as_millisecond().try_into().expect("a time after 1970")
}

/// IDs of other systems with what their publishers say of them.
#[test]
fn published_ids_decode_to_their_published_parts() {
    for (text, id, time, datacenter, worker, sequence) in [
        // Wikipedia, "Snowflake ID": machine 378 = 11 * 32 + 26.
        ("twitter", 1541815603606036480, "2022-06-28T16:07:40.105Z", 11, 26, 0),
        // Twitter's data dictionary, created_at 20:19:24.
        ("twitter", 1050118621198921728, "2018-10-10T20:19:24.211Z", 10, 27, 0),
        // The readme of ferroid.
        ("twitter", 517811994666, "2010-11-04T01:44:58.113Z", 0, 0, 42),
        // An article of 2020-08-09 whose generator begins at 1596211200000.
        ("twitter epoch=2020-07-31T16:00:00Z", 3125927076831231, "2020-08-09T07:01:19.092Z", 1, 1, 4095),
    ] {
        let expected = Parts { issued_at: ms(time), datacenter: Some(datacenter), worker: Some(worker), sequence };
        assert_eq!(layout(text).unpack(id), expected, "{id} as {text}");
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
}

#[test]
fn a_text_that_is_no_layout_is_refused_by_the_token_at_fault() {
    for (text, message) in [
        ("", "A layout begins with a name, which is one of: twitter, flat"),
        ("twiter", "\"twiter\" is not the name of a layout; known layouts are: twitter, flat"),
        ("twitter flat", "\"flat\" is not a setting of a layout; the only setting is epoch="),
        ("twitter epoch=1 epoch=2", "\"epoch=2\" sets the epoch a second time"),
    ] {
        assert_eq!(text.parse::<Layout>().expect_err(text).to_string(), message);
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
fn a_worker_or_data_center_that_does_not_fit_is_refused_with_the_range() {
    let worker = |value| SeriesError::Worker(OutOfRange { value, range: (0, 31) });
    let datacenter = |value, max| SeriesError::Datacenter(OutOfRange { value, range: (0, max) });
    assert_eq!(layout("twitter").series(0, 32), Err(worker(32)));
    assert_eq!(layout("twitter").series(0, -1), Err(worker(-1)));
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
            sequence: position & 4095,
        };
        assert_eq!(parts, expected);
    }
    assert!(positions.map(|position| series.id_at(position)).is_sorted());
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
}

#[test]
fn the_first_tick_from_a_time_never_begins_before_it() {
    let layout = Layout { unit_ms: 10, ..layout("flat") };
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
fn a_picture_shows_every_bit_under_its_field() {
    assert_eq!(
        layout("twitter").picture(1541815603606036480),
        "\
0 00101010110010110100001000111110110001000 01011 11010 000000000000
- ttttttttttttttttttttttttttttttttttttttttt ddddd wwwww ssssssssssss
t timestamp  367597485448 = 2022-06-28T16:07:40.105Z
d datacenter 11
w worker     26
s sequence   0"
    );
}
