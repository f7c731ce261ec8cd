//! What `snowflake_identity()` shows.

use super::fixture::{member, start};
use testbed::{Cluster, test, value};

#[test]
fn the_identity_is_what_the_status_and_the_control_file_show() {
    let cluster = start(member(7).set("snowflake_pg.layout", "twitter").set("snowflake_pg.datacenter_id", 3));
    let mut client = cluster.connect();
    client.batch_execute("SELECT snowflake_nextval(); CREATE ROLE app; SET ROLE app").expect("anybody");
    for (what, expected) in [
        ("(i.datacenter_id, i.worker_id, i.worker_id_source)", "(3,7,configuration)"),
        (
            "(i.worker_id, i.worker_id_source, i.datacenter_id, i.state) =
          (SELECT worker_id, worker_id_source, datacenter_id, state FROM snowflake_status)",
            "t",
        ),
        ("i.state", "ready"),
        ("i.layout", "t41 d5 w5 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z"),
        ("i.clock BETWEEN now() AND clock_timestamp()", "t"),
        ("i.library_version = (SELECT extversion FROM pg_extension WHERE extname = 'snowflake_pg')", "t"),
        ("i.in_recovery", "f"),
    ] {
        assert_eq!(value(&mut client, &format!("SELECT {what} FROM snowflake_identity() i")), expected, "{what}");
    }
    client.batch_execute("RESET ROLE").expect("an administrator");
    let same = "SELECT i.system_identifier = c.system_identifier FROM snowflake_identity() i, pg_control_system() c";
    assert_eq!(value(&mut client, same), "t");
    let standby = member(8).standby_of(&cluster);
    // Nobody is told that a server does not issue IDs which never will.
    let without_worker = member(8).set("snowflake_pg.worker_id", "").standby_of(&cluster);
    let metrics = "SELECT (state, can_issue, is_standby) FROM snowflake_metrics, snowflake_status";
    assert_eq!(value(&mut without_worker.connect(), metrics), "(\"worker unset\",0,1)");
    let shown = "SELECT (system_identifier = (SELECT system_identifier FROM pg_control_system()), worker_id, state,
        in_recovery) FROM snowflake_identity()";
    assert_eq!(value(&mut standby.connect(), shown), "(t,8,standby,t)");
}

#[test]
fn what_a_server_does_not_know_of_itself_is_null() {
    let shown = "SELECT (datacenter_id, worker_id, worker_id_source, state, layout, system_identifier > 0,
        clock <= clock_timestamp()) FROM snowflake_identity()";
    let layout = "\"t41 w10 s12 unit=1ms epoch=2010-11-04T01:42:54.657Z\"";
    for (builder, expected) in [
        (Cluster::builder(), format!("(,,,\"not preloaded\",{layout},t,t)")),
        (
            Cluster::builder().set("shared_preload_libraries", "snowflake_pg"),
            format!("(,,,\"worker unset\",{layout},t,t)"),
        ),
        (member(1).set("snowflake_pg.layout", "nonsense"), "(0,1,configuration,misconfigured,,t,t)".to_owned()),
    ] {
        assert_eq!(value(&mut start(builder).connect(), shown), expected);
    }
}
