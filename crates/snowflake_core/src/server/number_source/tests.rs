use super::*;
use proptest::prelude::*;

fn parsed(text: &str) -> NumberSource {
    NumberSource::parse(text).expect(text)
}

fn network(text: &str) -> Network {
    text.parse().expect(text)
}

fn refused(text: &str) -> String {
    NumberSource::parse(text).expect_err(text).to_string()
}

#[test]
fn every_word_names_its_source() {
    assert_eq!(parsed(" 5 "), NumberSource::Number(5));
    assert_eq!(parsed("0"), NumberSource::Number(0));
    assert_eq!(parsed("0x1F"), NumberSource::Number(31));
    assert_eq!(parsed("hostname"), NumberSource::HostName(0));
    assert_eq!(parsed("HostName+100"), NumberSource::HostName(100));
    assert_eq!(parsed("env:POD_INDEX"), NumberSource::Environment("POD_INDEX".into(), 0));
    assert_eq!(parsed("env:node_id+8"), NumberSource::Environment("node_id".into(), 8));
    assert_eq!(parsed("file:/etc/snowflake/worker+1"), NumberSource::File("/etc/snowflake/worker+1".into()));
    assert_eq!(parsed("citus"), NumberSource::Citus);
    assert_eq!(parsed("registry"), NumberSource::Registry);
    assert_eq!(parsed("ipv4"), NumberSource::Ipv4(None));
    assert_eq!(parsed("ipv4:10.20.0.0/22"), NumberSource::Ipv4(Some(network("10.20.0.0/22"))));
}

#[test]
fn nothing_is_unset() {
    for text in ["", "  "] {
        assert_eq!(parsed(text), NumberSource::Unset, "{text:?}");
    }
}

#[test]
fn what_is_no_source_is_refused_with_what_is_wrong() {
    for text in [
        "-",
        "-x",
        "5x",
        "0x",
        "0x1G",
        "0x+1",
        "5.0",
        "host",
        "hostname3",
        "env",
        "file",
        "env POD",
        "ipv6",
        "command:id",
        "citus:app",
        "5+1",
    ] {
        assert!(refused(text).starts_with("Valid values are"), "{text}: {}", refused(text));
    }
    for text in [
        "hostname+",
        "hostname+x",
        "hostname+-1",
        "hostname++1",
        "env:N+",
        "hostname+9223372036854775808",
        "hostname+99999999999999999999",
    ] {
        assert!(refused(text).starts_with("\"+\" must be followed"), "{text}: {}", refused(text));
    }
    assert_eq!(refused("env:"), "\"\" is not the name of an environment variable");
    assert_eq!(refused("env:1A"), "\"1A\" is not the name of an environment variable");
    assert_eq!(refused("env:A B"), "\"A B\" is not the name of an environment variable");
    assert_eq!(refused("file:worker"), "\"worker\" is not an absolute path");
    for text in ["99999999999999999999", "0x8000000000000000"] {
        assert_eq!(refused(text), "The number is too large");
    }
    for text in ["-1", "-0", "-20"] {
        assert_eq!(refused(text), "A number must not be negative");
    }
    for text in ["010", "007", "00"] {
        assert_eq!(refused(text), "A number must not begin with 0");
    }
    for text in ["ipv4:10.0.0.0", "ipv4:10.0.0.0/33", "ipv4:10.0.0.0/+8", "ipv4:10.0.0/8", "ipv4:"] {
        assert!(refused(text).ends_with("is not an IPv4 network such as \"10.20.0.0/22\""), "{text}");
    }
    let host_bits = "Network 10.20.1.1/22 has bits set to the right of its prefix; 10.20.0.0/22 is the network";
    assert_eq!(refused("ipv4:10.20.1.1/22"), host_bits);
}

#[test]
fn a_host_has_the_number_at_the_end_of_its_first_label() {
    for (name, number) in
        [("pg-3", 3), ("db7", 7), ("node07", 7), ("k8s-12", 12), ("db-2-3-4", 4), ("pg-3.db-9.example.com", 3)]
    {
        assert_eq!(number_of_host(name, 0), Ok(number), "{name}");
    }
    assert_eq!(number_of_host("pg-3", 100), Ok(103));
}

/// Two hosts could have the same number.
#[test]
fn a_number_that_may_be_a_part_of_something_longer_is_none_of_a_host() {
    for name in ["db", "", "7", "db-7a", "db_7", "db.zone-1", "pg-٣", "db-5f9c7d8b6-x2k49", "4be1f09a2c77"] {
        assert_eq!(number_of_host(name, 0), Err(NoNumber::NotAtEnd), "{name:?}");
    }
    for name in ["ip-10-0-3-7", "ip-10-0-3-7.ec2.internal"] {
        assert_eq!(number_of_host(name, 0), Err(NoNumber::Address), "{name}");
    }
}

#[test]
fn a_variable_is_a_number_or_has_one_at_its_end_as_a_name_does() {
    for (value, number) in [("3", 3), ("pg-3", 3), ("shard.12", 12)] {
        assert_eq!(number_of_variable(value, 100), Ok(number + 100), "{value}");
    }
    for value in ["", "secret", "x2k49", "fd00::7", "10.0.3.7:5432", "[fd00::7]:5432"] {
        assert_eq!(number_of_variable(value, 0), Err(NoNumber::NotAtEnd), "{value:?}");
    }
    assert_eq!(number_of_variable("10.0.3.7", 0), Err(NoNumber::Address));
    assert_eq!(number_of_variable("-1", 0), Err(NoNumber::Negative), "as templates write what is not set");
    for value in ["--1", ".1", "-.1"] {
        assert_eq!(number_of_variable(value, 0), Err(NoNumber::NotAtEnd), "{value:?}");
    }
}

#[test]
fn a_number_that_is_too_large_is_refused_and_never_wraps() {
    assert_eq!(number_of_variable("9223372036854775807", 0), Ok(9_223_372_036_854_775_807));
    for (text, offset) in [("9223372036854775808", 0), ("9223372036854775807", 1), ("18446744073709551619", 0)] {
        assert_eq!(number_of_variable(text, offset), Err(NoNumber::TooLarge), "{text}+{offset}");
    }
}

#[test]
fn a_file_has_one_number_and_nothing_else() {
    assert_eq!(only_number("12\n"), Ok(12));
    for text in ["", "\n", "-1", "1 2", "worker 3", "0x3", "3 # comment"] {
        assert_eq!(only_number(text), Err(NoNumber::NotANumber), "{text:?}");
    }
    assert_eq!(only_number("99999999999999999999"), Err(NoNumber::TooLarge));
}

const LOOPBACK: Ipv4Addr = Ipv4Addr::LOCALHOST;
const POD: Ipv4Addr = Ipv4Addr::new(10, 20, 3, 7);

#[test]
fn an_address_has_its_number_in_the_network_that_is_given() {
    let other = Ipv4Addr::new(192, 168, 1, 9);
    let given = network("10.20.0.0/22");
    assert_eq!(address_in(Some(given), &[LOOPBACK, other, POD]), Ok((POD, given)));
    assert_eq!(given.number_of(POD), 3 * 256 + 7);
    assert_eq!(given.greatest(), 1023);
    assert_eq!(network("0.0.0.0/0").number_of(POD), u64::from(POD.to_bits()));
    assert_eq!(network("10.20.3.7/32").number_of(POD), 0);
    assert_eq!(address_in(Some(given), &[LOOPBACK, other]), Err(NoNumber::NoAddressIn(given)));
    let neighbour = Ipv4Addr::new(10, 20, 0, 1);
    let several = NoNumber::SeveralIn { network: given, addresses: vec![neighbour, POD] };
    assert_eq!(address_in(Some(given), &[POD, neighbour, POD]), Err(several));
}

#[test]
fn the_one_private_address_has_its_number_in_its_block() {
    for (address, block) in [
        (POD, "10.0.0.0/8"),
        (Ipv4Addr::new(172, 31, 0, 1), "172.16.0.0/12"),
        (Ipv4Addr::new(192, 168, 1, 9), "192.168.0.0/16"),
        (Ipv4Addr::new(100, 127, 0, 1), "100.64.0.0/10"),
    ] {
        let public = Ipv4Addr::new(203, 0, 113, 5);
        assert_eq!(address_in(None, &[LOOPBACK, public, address]), Ok((address, network(block))));
    }
    assert_eq!(address_in(None, &[LOOPBACK, Ipv4Addr::new(172, 32, 0, 1)]), Err(NoNumber::NoPrivate));
    let bridge = Ipv4Addr::new(172, 17, 0, 1);
    let several = NoNumber::SeveralPrivate(vec![POD, bridge]);
    assert_eq!(several.to_string(), "This host has several private IPv4 addresses: 10.20.3.7, 172.17.0.1");
    assert_eq!(address_in(None, &[bridge, POD]), Err(several));
}

proptest! {
    #[test]
    fn addresses_of_one_network_have_numbers_of_their_own(base: u32, bits in 0_u32..=32, one: u32, other: u32) {
        let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
        let within = network(&format!("{}/{bits}", Ipv4Addr::from_bits(base & !hosts)));
        let address = |host: u32| Ipv4Addr::from_bits(base & !hosts | host & hosts);
        let (one, other) = (address(one), address(other));
        prop_assert!(within.contains(one));
        prop_assert!(within.number_of(one) <= within.greatest());
        prop_assert_eq!(one == other, within.number_of(one) == within.number_of(other));
    }

    #[test]
    fn a_source_is_shown_as_it_can_be_written(text in "(hostname|env:[A-Z_]{1,8})(\\+[1-9][0-9]{0,8})?|[1-9][0-9]{0,9}|file:/[a-z/]{1,9}") {
        prop_assert_eq!(parsed(&text).to_string(), text);
    }

    #[test]
    fn no_text_is_a_bug(text in "\\PC{0,40}", offset: u64) {
        let _ = NumberSource::parse(&text);
        let _ = number_of_host(&text, offset);
        let _ = number_of_variable(&text, offset);
        let _ = only_number(&text);
    }
}
