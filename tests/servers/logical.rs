//! Logical replication between servers that all issue IDs.

use testbed::{Builder, Cluster, Signal, error, need_postgresql, test, value};

const TABLE: &str = "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), item text);
    CREATE PUBLICATION orders FOR TABLE orders";

fn server(builder: Builder) -> Cluster {
    let cluster = builder.set("wal_level", "logical").start();
    cluster.connect().batch_execute(&format!("CREATE EXTENSION snowflake_pg; {TABLE}")).expect("a table");
    cluster
}

/// Lets a server receive what another one writes from now on.
fn subscribe(subscriber: &Cluster, publisher: &Cluster, name: &str, options: &str) {
    let query = format!(
        "CREATE SUBSCRIPTION {name} CONNECTION 'host={} user=postgres dbname=postgres' PUBLICATION orders WITH ({options})",
        publisher.host().display()
    );
    subscriber.connect().batch_execute(&query).expect("a subscription");
    subscriber.wait_until("SELECT bool_and(srsubstate = 'r') FROM pg_subscription_rel");
}

fn insert(server: &Cluster, rows: u32) {
    let query = format!(
        "INSERT INTO orders (item) SELECT current_setting('snowflake_pg.worker_id') FROM generate_series(1, {rows})"
    );
    server.connect().batch_execute(&query).expect("rows");
}

fn wait_for_rows(server: &Cluster, rows: u32) {
    server.wait_until(&format!("SELECT count(*) = {rows} FROM orders"));
}

/// What the rows say of themselves: how many of which worker, and how many IDs that disagree.
fn issued(server: &Cluster) -> String {
    let query = "SELECT string_agg(format('%s of %s', rows, item), ', ' ORDER BY item) FROM (
        SELECT item, count(*) AS rows FROM orders WHERE (snowflake_decode(id)).worker_id = item::integer GROUP BY item) s";
    value(&mut server.connect(), query)
}

#[test]
fn a_subscriber_that_inserts_too_gets_no_id_of_its_publisher() {
    let (publisher, subscriber) = (server(Cluster::builder().worker(0)), server(Cluster::builder().worker(1)));
    insert(&publisher, 1000);
    subscribe(&subscriber, &publisher, "orders", "copy_data");
    for _ in 0..10 {
        insert(&publisher, 1000);
        insert(&subscriber, 1000);
    }
    wait_for_rows(&subscriber, 21_000);
    assert_eq!(issued(&subscriber), "11000 of 0, 10000 of 1", "no ID is issued anew where it arrives");
}

/// With a sequence, the first insert there fails: logical replication does not bring where it is.
#[test]
fn after_a_cutover_the_subscriber_goes_on_above_every_id_that_it_has_received() {
    // The new server's clock is so far behind that its IDs are above only where it was told to go on there.
    let publisher = server(Cluster::builder().worker(0));
    let mut subscriber = Cluster::builder()
        .worker(1)
        .set("wal_level", "logical")
        .set("snowflake_pg.max_borrow", "10min")
        .own_clock()
        .create();
    subscriber.set_clock(-60.0);
    subscriber.start();
    let table =
        format!("CREATE EXTENSION snowflake_pg; {TABLE}; ALTER TABLE orders ADD COLUMN serial bigserial UNIQUE");
    subscriber.connect().batch_execute(&table).expect("a table");
    publisher.connect().batch_execute("ALTER TABLE orders ADD COLUMN serial bigserial UNIQUE").expect("a column");
    subscribe(&subscriber, &publisher, "orders", "copy_data");
    insert(&publisher, 1000);
    wait_for_rows(&subscriber, 1000);
    let mut client = subscriber.connect();
    client.batch_execute("DROP SUBSCRIPTION orders").expect("the end of it");
    client.batch_execute("SELECT snowflake_advance((SELECT max(id) FROM orders))").expect("a cutover");
    let insert = "INSERT INTO orders (item) VALUES ('new') RETURNING id > (SELECT max(id) FROM orders)";
    assert_eq!(error(&mut client, insert).constraint(), Some("orders_serial_key"));
    client.batch_execute("SELECT setval('orders_serial_seq', (SELECT max(serial) FROM orders))").expect("a sequence");
    assert_eq!(value(&mut client, insert), "t");
}

#[test]
fn two_servers_that_replicate_to_each_other_insert_at_once() {
    need_postgresql(16); // origin = none
    let servers = [0, 1].map(|worker| server(Cluster::builder().worker(worker)));
    let [one, other] = &servers;
    subscribe(one, other, "from_other", "origin = none, copy_data = false");
    subscribe(other, one, "from_one", "origin = none, copy_data = false");
    std::thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| (0..20).for_each(|_| insert(server, 500)));
        }
    });
    for server in &servers {
        wait_for_rows(server, 20_000);
        assert_eq!(issued(server), "10000 of 0, 10000 of 1");
    }
}

#[test]
fn a_publisher_with_the_worker_of_its_subscriber_is_found_before_an_id_comes_twice() {
    let (publisher, subscriber) = (server(Cluster::builder().worker(0)), server(Cluster::builder().worker(0)));
    publisher.settle();
    insert(&subscriber, 10);
    subscribe(&subscriber, &publisher, "orders", "copy_data = false");
    insert(&publisher, 10);
    wait_for_rows(&subscriber, 20);
    let foreign = "SELECT count(*) FROM orders WHERE snowflake_issued_elsewhere(id)";
    assert_eq!(value(&mut subscriber.connect(), foreign), "10");
    let fleet = format!(
        "SELECT string_agg(problem, '; ') FROM snowflake_check_fleet(ARRAY['host={} user=postgres dbname=postgres'])",
        publisher.host().display()
    );
    let problems = "same worker ID as server 1 (…); same worker ID as this server";
    let found = value(&mut subscriber.connect(), &fleet);
    assert_eq!(found.replace(&publisher.host().display().to_string(), "…"), problems);
}

/// What an ID that comes twice would do: it stops the subscription.
#[test]
fn a_row_with_an_id_that_the_subscriber_has_stops_the_subscription() {
    let (publisher, subscriber) = (server(Cluster::builder().worker(0)), server(Cluster::builder().worker(0)));
    subscribe(&subscriber, &publisher, "orders", "copy_data = false, disable_on_error");
    for server in [&subscriber, &publisher] {
        server.connect().batch_execute("INSERT INTO orders VALUES (1541815603606036480)").expect("a row");
    }
    subscriber.wait_until("SELECT NOT subenabled FROM pg_subscription");
    let said = match value(&mut subscriber.connect(), "SHOW server_version_num").parse::<u32>().expect("a number") {
        ..180_000 => "ERROR:  duplicate key value violates unique constraint \"orders_pkey\"",
        _ => "ERROR:  conflict detected on relation \"public.orders\": conflict=insert_exists",
    };
    subscriber.wait_for_log(said);
}

/// What the extension keeps is in no sequence.
#[test]
fn a_subscriber_that_refreshes_all_sequences_takes_no_id_back() {
    need_postgresql(19);
    let (publisher, mut subscriber) = (server(Cluster::builder().worker(0)), server(Cluster::builder().worker(1)));
    for server in [&publisher, &subscriber] {
        let both = "ALTER TABLE orders ADD COLUMN serial bigserial;
            CREATE PUBLICATION everything FOR ALL TABLES, ALL SEQUENCES";
        server.connect().batch_execute(both).expect("a sequence");
        insert(server, 1000);
    }
    let everything = format!(
        "CREATE SUBSCRIPTION everything CONNECTION 'host={} user=postgres dbname=postgres' PUBLICATION everything
         WITH (copy_data = false)",
        publisher.host().display()
    );
    let mut client = subscriber.connect();
    client.batch_execute(&everything).expect("a subscription");
    client.batch_execute("SELECT setval('orders_serial_seq', 7)").expect("a sequence");
    client.batch_execute("ALTER SUBSCRIPTION everything REFRESH SEQUENCES").expect("sequences");
    subscriber.wait_until("SELECT last_value > 900 FROM orders_serial_seq");
    let sequences =
        "SELECT string_agg(srrelid::regclass::text, ', ') FROM pg_subscription_rel JOIN pg_class c ON c.oid = srrelid
        WHERE relkind = 'S'";
    assert_eq!(value(&mut client, sequences), "orders_serial_seq");
    let next = "INSERT INTO orders (item) VALUES ('new')
        RETURNING id > (SELECT max(id) FROM orders) AND (snowflake_decode(id)).worker_id = 1";
    assert_eq!(value(&mut client, next), "t");
    subscriber.restart(Signal::KILL);
    assert_eq!(value(&mut subscriber.connect(), next), "t");
}
