//! The layout that a message names instead of one that cannot issue IDs.

use super::*;

/// What the clock shows in these tests.
const NOW: &str = "2026-11-25T12:00:00Z";

#[test]
fn a_layout_that_cannot_issue_ids_names_one_that_can() {
    let same = |until: &str| format!("Its IDs have the same bits until {until}.");
    let later = |until: &str| format!("Its timestamps last until {until}.");
    for (text, setting, remark) in [
        ("discord", "t41 d5 w5 s12 epoch=2015-01-01T00:00:00Z", same("2084-09-06T15:47:35.551Z")),
        ("instagram", "t40 w13 s10 epoch=2011-08-24T21:07:01.721Z", same("2046-06-27T17:00:49.496Z")),
        ("pgactive", "t39 w10 s14 epoch=2016-10-06T23:22:19.634Z", same("2034-03-09T21:19:13.521Z")),
        ("tsid", "t41 w10 s12 epoch=2020-01-01T00:00:00Z", same("2089-09-06T15:47:35.551Z")),
        (
            "mastodon",
            "t47 s16 epoch=1970-01-01T00:00:00Z",
            same("6429-10-17T02:45:55.327Z") + " It has no worker, so only one server can issue IDs.",
        ),
        ("t42 w10 s12", "flat", same("2080-07-10T17:30:30.208Z")),
        ("uid", "t28 w22 s13 unit=1s epoch=2026-01-01T00:00:00Z", later("2034-07-04T21:24:15Z")),
        ("t38 w26", "t37 w26 epoch=2026-01-01T00:00:00Z", later("2030-05-10T17:29:13.471Z")),
        ("w10 t41 s12", "flat", "Its timestamp is the highest field.".to_owned()),
    ] {
        let replacement = layout(text).replacement(ms(NOW)).expect(text);
        assert_eq!((replacement.layout.short_text().as_str(), replacement.to_string()), (setting, remark), "{text}");
    }
    for text in ["flat", "k8s", "t41 w2 s20", "flat epoch=2027-01-01T00:00:00Z"] {
        assert_eq!(layout(text).replacement(ms(NOW)), None, "{text}: IDs can be issued, or will be");
    }
    for text in ["t1 d1 w31 s31", "t20 w5"] {
        assert_eq!(layout(text).replacement(ms(NOW)), None, "{text}: no bit is left, or all are over within a year");
    }
}

/// Whatever the year, of each layout with a name.
#[test]
fn the_layout_that_a_message_names_can_issue_ids_and_decodes_known_ones_to_the_same_fields() {
    for now in [NOW, "2033-01-01T00:00:00Z", "2045-01-01T00:00:00Z", "2079-01-01T00:00:00Z"].map(ms) {
        for preset in PRESETS {
            let (name, original) = (preset.name, preset.layout());
            let can_issue = |layout: &Layout| layout.check_issuing().is_ok() && layout.tick_at(now).is_ok();
            let replacement = original.replacement(now);
            assert_eq!(can_issue(&original), replacement.is_none(), "{name}");
            let Some(replacement) = replacement else { continue };
            let named = layout(&replacement.layout.short_text());
            assert!(named == replacement.layout && can_issue(&named), "{name}");
            if replacement.to_string().contains("the same bits") {
                let known = known_answers().filter(|[_, text, ..]| *text == name).map(|[id, ..]| id_of(id));
                for id in known.chain([1, 1 << 40, named.max_id()]).filter(|id| *id <= named.max_id()) {
                    assert_eq!(named.unpack(id), original.unpack(id), "{name}");
                }
            }
        }
    }
}

#[test]
fn the_documentation_has_a_row_for_each_layout_with_a_name_that_cannot_issue_ids() {
    let (_, page) =
        include_str!("../../../../../../docs/layouts.md").split_once("| to read | to issue |").expect("a table");
    for preset in PRESETS {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}`", preset.name)));
        let documented = row.map(|row| layout(row.split('`').nth(3).expect("a layout")));
        let replacement = preset.layout().replacement(ms(NOW));
        assert_eq!(documented, replacement.map(|replacement| replacement.layout), "{}", preset.name);
        let year = replacement.map(|replacement| display_time(replacement.layout.last_time())[..4].to_owned());
        assert!(year.is_none_or(|year| row.is_some_and(|row| row.contains(&format!("| {year}")))), "{row:?}");
    }
}

#[test]
fn data_center_and_worker_can_be_read_as_one_number_where_they_are_adjacent() {
    let remark = "Layout \"flat\" has the same bits, and workers 0 to 1023.";
    assert_eq!(layout("twitter").flat_layout_hint().as_deref(), Some(remark));
    for text in ["flat", "t41 w5 d5 s12", "t41 d5 s12 w5", "t10 d20 w20"] {
        assert_eq!(layout(text).flat_layout_hint(), None, "{text}");
    }
}

#[test]
fn the_shortest_text_of_a_layout_is_read_back() {
    for (text, short) in [
        ("t41 w10 s12", "flat"),
        ("twitter unit=1ms", "twitter"),
        ("leaf", "flat"),
        ("t41 w2 s20", "t41 w2 s20"),
        ("k8s t30 w22", "t30 w22 unit=1s epoch=2021-09-16T08:14:08Z"),
    ] {
        assert_eq!(layout(text).short_text(), short);
        assert_eq!(layout(short), layout(text));
    }
}
