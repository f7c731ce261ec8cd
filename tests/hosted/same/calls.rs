//! The calls whose results are compared: every function, with odd arguments.

/// Layouts by name, of each number of bits, unit and order of fields, and texts that are none.
const LAYOUTS: &[&str] = &[
    "flat",
    "twitter",
    "leaf",
    "uid",
    "k8s",
    "game",
    "js",
    "pgedge",
    "pgactive",
    "pgdog",
    "pgdog_compact",
    "clickhouse",
    "tsid",
    "sonyflake",
    "instagram",
    "discord",
    "mastodon",
    "FLAT",
    " flat  epoch=2024-01-01T00:00:00Z",
    "flat\tunit=10ms",
    "t41 w2 s20",
    "t28 w24 s11 unit=1s epoch=2021-09-16T08:14:08Z",
    "k8s t30 w22",
    "T41 W10 S12",
    "t41 w5 s9 h8",
    "t41 h8 w5 s9",
    "t1",
    "t40",
    "t62 s1 unit=1ms",
    "t41 w10",
    "w10 t41 s12",
    "s12 w10 t42",
    "t33 w31 unit=1s",
    "t41 s22",
    "t41 d1 w1 h1 s1 unit=333ms",
    "t30 d31 unit=1s",
    "t32 s31 epoch=0 unit=1000MS",
    "t44 w10 s9 epoch=1970-01-01T00:00:00.001Z",
    "t41 epoch=2024-01-01T00:00:00+02:00",
    "t41 epoch=2024-01-01T00:00:00.120000Z",
    "t41 epoch=253402207200999 unit=1ms",
    "t41 epoch=2024-02-29t23:59:59.999z",
    "t41 epoch=2024-02-29T23:59+0530",
    "t41 epoch=1969-12-31T23:30:00-01",
    "t41 epoch=0000000000000000001",
    // None.
    "",
    " ",
    "none",
    "t0",
    "t64",
    "t",
    "tt41",
    "t41x",
    "t-1",
    "t41 t41",
    "t41 w32",
    "w10 s12",
    "t41 w31",
    "t41 w10 s14",
    "t41 d31 w31",
    "t53",
    "t63",
    "t52",
    "flat flat",
    "t41 flat",
    "t41 unit=",
    "t41 unit=0ms",
    "t41 unit=1001ms",
    "t41 unit=2s",
    "t41 unit=1m",
    "t41 unit=-1ms",
    "t41 unit=1ms unit=1ms",
    "t41 epoch=",
    "t41 epoch=x",
    "t41 epoch=-1",
    "t41 epoch=2024-01-01",
    "t41 epoch=2024-01-01T00:00:00",
    "t41 epoch=1969-12-31T23:59:59Z",
    "t41 epoch=2024-13-01T00:00:00Z",
    "t41 epoch=2024-02-30T00:00:00Z",
    "t41 epoch=2024-02-28T24:00:00Z",
    "t41 epoch=2024-02-28T23:59:60Z",
    "t41 epoch=2024-02-28T23:59:60.5Z",
    "t41 epoch=2024-02-28T23:59:61Z",
    "t41 epoch=2024-02-28T23:60:00Z",
    "t41 epoch=2024-02-28T23:59:59+16:00",
    "t41 epoch=2024-00-10T00:00:00Z",
    "t41 epoch=0000-01-10T00:00:00Z",
    "t41 epoch=2024-01-01T00:00:00.0001Z",
    "t41 epoch=99999999999999999999",
    "t41 epoch=253402207201000",
    "t41 w99999999999",
    "t41, w10",
    "é41",
    "t41 epoch=1 epoch=1",
    "t41 w0",
];

const IDS: &[&str] = &[
    "0",
    "1",
    "-1",
    "4095",
    "4096",
    "4194303",
    "4194304",
    "2006515713439040712",
    "175928847299117063",
    "9223372036854775807",
    "9007199254740991",
    "9007199254740992",
    "(-9223372036854775807 - 1)",
    "2147483647",
    "NULL",
    "1541815603606036480",
    "-4194304",
];

const TIMES: &[&str] = &[
    "2010-11-04 01:42:54.657Z",
    "2010-11-04 01:42:54.656999Z",
    "2026-01-01Z",
    "2026-01-01 00:00:00.000999Z",
    "2026-02-03 04:05:06.789+05:30",
    "2080-07-10 17:30:30.207999Z",
    "2080-07-10 17:30:30.208Z",
    "2080-07-10 17:30:30.209Z",
    "1970-01-01Z",
    "1969-12-31 23:59:59Z",
    "2159-05-15 07:35:11.103Z",
    "10889-08-02 05:31:50.655Z",
    "infinity",
    "-infinity",
    "4713-01-01 BC",
    "294000-01-01Z",
    "2014-09-01 00:00:00.009Z",
    "2084-09-06Z",
];

/// The calls, without their SELECT.
pub fn calls() -> Vec<String> {
    let mut calls = Vec::new();
    let mut add = |call: String| calls.push(call);
    for layout in LAYOUTS {
        let layout = layout.replace('\t', "' || chr(9) || '");
        let layout = format!("('{layout}')::text");
        for id in IDS {
            add(format!("snowflake_timestamp({id}, {layout})"));
            add(format!("snowflake_decode({id}, {layout})::text"));
            add(format!("snowflake_explain({id}, {layout})"));
        }
        for time in TIMES {
            add(format!("snowflake_min_id('{time}', {layout})"));
            for operator in [">=", ">", "<=", "<"] {
                add(format!("snowflake_bound('{time}', '{operator}', {layout})"));
            }
            add(format!("snowflake_within(2006515713439040712, '{time}', 'infinity', {layout})"));
            add(format!("snowflake_within(2006515713439040712, '-infinity', '{time}', {layout})"));
            add(format!("snowflake_compose('{time}', 1, 1, 1, 0, {layout})"));
            add(format!("snowflake_compose('{time}', NULL, NULL, NULL, NULL, {layout})"));
            add(format!("snowflake_compose('{time}', 0, 1023, 4095, 255, {layout})"));
            add(format!("snowflake_compose('{time}', -1, 0, 0, 0, {layout})"));
        }
        for of_type in ["timestamptz", "timestamp", "date"] {
            add(format!("snowflake_time_expression('Order ID', '{of_type}', {layout})"));
        }
    }
    // Those without a layout, and NULLs.
    for id in IDS {
        for function in ["timestamp", "explain", "decode", "to_uuid"] {
            add(format!("snowflake_{function}({id})::text"));
        }
        add(format!("snowflake_from_uuid(snowflake_to_uuid({id}))"));
        add(format!("(SELECT string_agg(d::text, ' ') FROM snowflake_decode_all({id}) d)"));
        add(format!("snowflake_within({id}, '2026-01-01Z')"));
        add(format!("snowflake_within({id}, NULL, '2026-01-01Z')"));
        add(format!("snowflake_within({id}, '2026-01-01Z', NULL)"));
        add(format!("snowflake_timestamp({id}, NULL)"));
        for modulus in ["1", "2", "3", "32", "2147483647", "0", "-1", "NULL"] {
            add(format!("snowflake_shard_of({id}, {modulus})"));
        }
        for encoding in ["base62", "BASE58", "crockford32", "hex", "base64", ""] {
            add(format!("snowflake_to_text({id}, '{encoding}')"));
            add(format!("snowflake_from_text(snowflake_to_text({id}, '{encoding}'), '{encoding}')"));
        }
    }
    for time in TIMES {
        add(format!("snowflake_min_id('{time}')"));
        add(format!("snowflake_bound('{time}', '<=')"));
        add(format!("snowflake_within(2006515713439040712, '{time}')"));
        add(format!("snowflake_compose('{time}', 0, 3, 4)"));
    }
    for call in [
        "min_id(NULL)",
        "min_id('2026-01-01Z', NULL)",
        "bound('2026-01-01Z', '=')",
        "bound('2026-01-01Z', NULL)",
        "bound(NULL, '<')",
        "compose(NULL, 0, 0, 0)",
        "compose('2026-01-01Z', 0, NULL, 0)",
        "compose('2026-01-01Z', 0, 0, 0, 0, NULL)",
        "to_text(NULL, 'hex')",
        "to_text(1, NULL)",
        "from_text(NULL, 'hex')",
    ] {
        add(format!("snowflake_{call}"));
    }
    let shuffled = "ohrfjdgPzp3T2XkNulQBFas9eJDmW7VKSC51cbUL8tRiOqIwZn406YEMyGxHAv";
    for alphabet in
        [shuffled, "abc", "", &shuffled.replace('o', "h"), &shuffled.replace('o', "é"), &shuffled.replace('o', " ")]
    {
        for encoding in ["base62", "base58", "hex"] {
            add(format!("snowflake_to_text(2006515713439040712, '{encoding}', '{alphabet}')"));
            add(format!("snowflake_from_text('Zn406', '{encoding}', '{alphabet}')"));
        }
    }
    for text in [
        "",
        "0",
        "-",
        "97DKMHa",
        "AzL8n0Y58m7",
        "AzL8n0Y58m8",
        "zzzzzzzzzzzzzzzzzzzzzzzzz",
        "00000F280001A",
        "o-i-l",
        "00000f280001a",
        "7ZZZZZZZZZZZZ",
        "8000000000000",
        "7fffffffffffffff",
        "8000000000000000",
        "DEADBEEF",
        "U",
        "é",
        " 1",
        "0000000000000000000000000000001",
        "+1",
        "zzzzzzzzzzzzzzzzzz!",
    ] {
        for encoding in ["base62", "base58", "crockford32", "hex"] {
            add(format!("snowflake_from_text('{text}', '{encoding}')"));
        }
    }
    for uuid in [
        "00000000-0000-8000-8000-000000000000",
        "01234567-89ab-8cde-bc00-000000000000",
        "7fffffff-ffff-8fff-bc00-000000000000",
        "80000000-0000-8000-8000-000000000000",
        "01234567-89ab-7cde-bc00-000000000000",
        "01234567-89ab-8cde-fc00-000000000000",
        "01234567-89ab-8cde-bc00-000000000001",
        "01234567-89ab-8cde-be00-000000000000",
    ] {
        add(format!("snowflake_from_uuid('{uuid}')"));
    }
    for call in [
        "time_expression('id')",
        "time_expression('Order ID', 'timestamp')",
        "time_expression(NULL)",
        "time_expression('id', NULL, 'flat')",
        "add_created_at('\"a b\".plain')",
        "add_created_at('keyed', 'at')",
        "add_created_at('keyed', 'at', true, 'timestamptz', 'none')",
        "add_created_at('keyed', 'seen', true, 'timestamptz', 'discord')",
        "add_created_at('keyed', stored => true, of_type => 'timestamp')",
        "add_created_at('keyed', stored => true)",
        "add_created_at('keyed', stored => NULL)",
        "add_created_at('pg_class', stored => true)",
        "nextvals(0)",
        "nextvals(1000001)",
        "nextblock(0)",
        "nextblock(4097)",
        "nextval_tagged(1)",
        "nextval_tagged(NULL)",
        "lastval()",
        "poll(NULL::keyed, 0)",
        "poll(NULL::keyed, NULL)",
        "poll(NULL::keyed, 0, NULL)",
        "poll(NULL::keyed, 0, 0)",
        "poll(NULL::keyed, 0, 1, 'ids')",
        "poll(NULL::keyed, 0, 1, 'id', '2 minutes')",
        "poll(NULL::keyed, 0, 1, wait => '-1 s')",
        "poll(NULL::domains, 0)",
        "poll(NULL::copied, 0)",
        "poll(NULL::seen, 0)",
        "poll(NULL::mine, 0)",
        "poll(NULL::integer, 0)",
        "poll(NULL::pg_class, 0)",
        "poll(NULL::pg_class, 0, 1, 'relname')",
        "advance(9223372036854775807)",
        "advance(((1::bigint << 41) - 1) << 22)",
        "nextval_for_shard(0, 0)",
        "nextval_for_shard(8, 8)",
        "nextval_for_shard(8, -1)",
        "nextval_for_shard(8, NULL)",
        "shard_of(snowflake_nextval_for_shard(8, 3), 8)",
        "nextval_for(0)",
        "nextval_for('texts_0')",
        "nextval_for('expressions_0')",
        "nextval_for('year_0')",
        "nextval_for('year', 1)",
        "shard_of(snowflake_nextval_for('tenant_0'), 2)",
        "nextval_for('\"a b\".plain')",
        "nextval_for('\"a b\".two_0')",
        "nextval_for('\"a b\".\"Ids\"')",
        "nextval_for('\"a b\".\"Ids\"', NULL)",
        "nextval_for('\"a b\".ids_3', 2124492133267144704)",
        "nextval_for(0, 1)",
        "shard_of(snowflake_nextval_for('\"a b\".ids_3'), 4)",
        "shard_of(snowflake_nextval_for('\"a b\".ids_3', snowflake_nextval_for_shard(4, 3)), 4)",
        "shard_of(snowflake_nextval_for('\"a b\".\"Ids\"', 1541815603606036481), 8)",
    ] {
        add(format!("snowflake_{call}"));
    }
    calls
}
