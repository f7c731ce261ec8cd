//! The simulation (`crates/fleet_simulation`) beside what it simulates: their constants are the same.

use fleet_simulation::settings::{KEEP_WARM, LEASE_MS, parameters};
use snowflake_core::server::lease::margin_ms;
use testbed::{Cluster, Registry, test, value};

#[test]
fn simulated_servers_have_the_defaults_of_the_extension() {
    let database = Cluster::builder().worker(1).database();
    for (name, simulated) in parameters() {
        let query = format!("SELECT boot_val FROM pg_settings WHERE name = 'snowflake_pg.{name}'");
        assert_eq!(value(&mut database.connect(), &query), simulated, "{name}");
    }
    let keep_warm =
        "SELECT (extract(epoch FROM current_setting('snowflake_pg.keep_warm')::interval) * 1000000)::bigint";
    assert_eq!(value(&mut database.connect(), keep_warm), KEEP_WARM.to_string());
}

#[test]
fn a_simulated_registry_has_the_constants_of_the_real_one() {
    let registry = Registry::start();
    let mut dba = registry.connect();
    for lease_ms in [5_000, 599_999, 600_000, 600_010, LEASE_MS] {
        let margin = value(&mut dba, &format!("SELECT snowflake_registry.margin({lease_ms})::text"));
        assert_eq!(margin, margin_ms(lease_ms).to_string(), "{lease_ms}");
    }
    let longest = value(&mut dba, "SELECT longest_lease_ms::text FROM snowflake_registry.registry");
    assert_eq!(longest, LEASE_MS.to_string());
}
