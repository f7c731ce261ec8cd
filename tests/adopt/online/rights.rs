//! A migration has the rights of whoever begins it, and code of the owners of tables has theirs.

use super::super::run;
use super::{call, server};
use testbed::{error, need_postgresql, test, value};

/// Writes down who runs it, and tries to become a superuser.
const CODE: &str = "
    CREATE ROLE shop; CREATE ROLE dba LOGIN; GRANT shop TO dba; GRANT CREATE ON SCHEMA public TO shop, dba; CREATE ROLE mallory LOGIN;
    SET SESSION AUTHORIZATION shop; CREATE TABLE who (name text);
    CREATE FUNCTION look() RETURNS void LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO public.who VALUES (current_user);
        BEGIN RESET ROLE; INSERT INTO public.who VALUES ('reset to ' || current_user); EXCEPTION WHEN OTHERS THEN END;
    END $$;
    CREATE FUNCTION is_fine(n integer) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM public.look(); RETURN true; END';
    CREATE FUNCTION is_fine(n bigint) RETURNS boolean LANGUAGE plpgsql AS 'BEGIN PERFORM public.look(); RETURN true; END';
    -- Whoever looks whether a CHECK implies that a column is NOT NULL calls this one.
    CREATE FUNCTION is_same(n integer) RETURNS boolean IMMUTABLE LANGUAGE plpgsql AS 'BEGIN PERFORM public.look(); RETURN true; END';
    CREATE FUNCTION always() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM public.look(); RETURN NEW; END';
    CREATE TABLE sales (id serial PRIMARY KEY, n integer, CHECK (is_fine(id)), CHECK (is_same(1)));
    CREATE INDEX ON sales (id) WHERE is_same(2); CREATE INDEX ON sales (is_same(n)); CREATE POLICY mine ON sales USING (is_same(3));
    ALTER TABLE sales ENABLE ROW LEVEL SECURITY; CREATE STATISTICS odds ON n, is_same(n) FROM sales;
    CREATE TRIGGER a BEFORE UPDATE ON sales FOR EACH ROW EXECUTE FUNCTION always(); ALTER TABLE sales ENABLE ALWAYS TRIGGER a;
    INSERT INTO sales (n) VALUES (1), (2); DELETE FROM who; RESET SESSION AUTHORIZATION";

#[test]
fn code_of_the_owner_never_runs_with_the_rights_of_whoever_adopts_the_table() {
    let (cluster, mut client) = server();
    client.batch_execute(CODE).expect("tables");
    for user in ["postgres", "dba"] {
        client
            .batch_execute("SET SESSION AUTHORIZATION shop; CREATE TABLE again (LIKE sales INCLUDING ALL); RESET SESSION AUTHORIZATION")
            .expect("a table");
        let mut session = cluster.connect();
        session.batch_execute(&format!("SET SESSION AUTHORIZATION {user}")).expect("a user");
        let table = if user == "dba" { "sales" } else { "again" };
        client
            .batch_execute("SET ROLE shop; INSERT INTO again VALUES (1, 1); DELETE FROM who; RESET ROLE")
            .expect("rows");
        for step in ["start", "run", "finish"] {
            call(&mut session, &format!("{step}('{table}')"));
        }
        assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM who"), "shop", "{user}");
        assert_eq!(value(&mut client, &format!("SELECT pg_typeof(max(id)) FROM {table}")), "bigint");
        client.batch_execute("DROP TABLE again").expect("a table");
    }
}

/// Whoever opens a table to change it simplifies the expressions of its partition key.
#[test]
fn code_in_a_partition_key_never_runs_with_the_rights_of_whoever_adopts_the_table() {
    let (_cluster, mut client) = server();
    client.batch_execute(CODE).expect("tables");
    client
        .batch_execute(
            "SET SESSION AUTHORIZATION shop; CREATE TABLE parts (id serial, n integer) PARTITION BY LIST ((n > 0 AND is_same(1)));
             CREATE TABLE part PARTITION OF parts DEFAULT; INSERT INTO parts (n) VALUES (1); DELETE FROM who; RESET SESSION AUTHORIZATION",
        )
        .expect("a table");
    for step in ["start", "undo", "start", "run", "finish"] {
        call(&mut client, &format!("{step}('parts')"));
    }
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM who"), "shop");
}

#[test]
fn a_role_without_rights_sees_no_migration_and_can_begin_or_change_none() {
    let (cluster, mut client) = server();
    client.batch_execute("CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory").expect("a role");
    call(&mut client, "start('orders')");
    let mut mallory = cluster.connect();
    mallory.batch_execute("SET SESSION AUTHORIZATION mallory").expect("a user");
    assert_eq!(value(&mut mallory, "SELECT count(*) FROM snowflake_adopt.progress"), "0");
    for step in ["run", "pause", "finish", "undo"] {
        let refused = error(&mut mallory, &format!("CALL snowflake_adopt.{step}('orders')"));
        assert_eq!(refused.message(), "public.orders is not being adopted", "{step}");
    }
    assert_eq!(value(&mut client, "SELECT is_paused FROM snowflake_adopt.migration"), "f");
    for (command, code) in [
        ("CALL snowflake_adopt.start('items', 'order_id')", "55000"),
        ("INSERT INTO snowflake_adopt.migration (relation, column_name) VALUES ('items', 'order_id')", "42501"),
        (
            "INSERT INTO snowflake_adopt.migration (relation, column_name, role) VALUES ('items', 'order_id', 'postgres')",
            "42501",
        ),
        ("INSERT INTO snowflake_adopt.beside VALUES ('orders', 'items', 'n', 'id')", "42501"),
        ("SELECT snowflake_adopt.copy_blocks('items'::regclass, 0, 1, '{2}', '{1}')", "42501"),
    ] {
        assert_eq!(error(&mut mallory, command).code().code(), code, "{command}");
    }
}

/// Its member has the rights of the role, but may not have a worker act for it.
#[test]
fn a_member_who_cannot_become_a_role_by_set_role_sees_no_migration_of_it_and_can_begin_none() {
    need_postgresql(16);
    let (cluster, mut client) = server();
    client.batch_execute(CODE).expect("tables");
    client
        .batch_execute(
            "CREATE ROLE clerk LOGIN; GRANT shop TO clerk WITH INHERIT TRUE, SET FALSE; GRANT CREATE ON SCHEMA public TO clerk;
             CREATE ROLE coder; GRANT coder TO dba WITH SET FALSE; ALTER FUNCTION always() OWNER TO coder",
        )
        .expect("a member");
    let mut clerk = cluster.connect();
    clerk.batch_execute("SET SESSION AUTHORIZATION clerk").expect("a user");
    let refused = error(&mut clerk, "CALL snowflake_adopt.start('sales')");
    let says = "You do not have the rights of shop, who owns public.sales.";
    assert!(refused.detail().is_some_and(|detail| detail.contains(says)), "{refused:?}");
    let begin = "INSERT INTO snowflake_adopt.migration (relation, column_name, role) VALUES ('sales', 'id', 'shop')";
    assert_eq!(error(&mut clerk, begin).code().code(), "42501");
    let mut dba = cluster.connect();
    dba.batch_execute("SET SESSION AUTHORIZATION dba").expect("a user");
    call(&mut dba, "start('sales')");
    assert_eq!(value(&mut clerk, "SELECT count(*) FROM snowflake_adopt.progress"), "0");
    assert_eq!(error(&mut clerk, "CALL snowflake_adopt.undo('sales')").message(), "public.sales is not being adopted");
    // Nor does a swap change a function of such a role.
    for step in ["run('sales')", "finish('sales')"] {
        call(&mut dba, step);
    }
    assert_eq!(value(&mut dba, "SELECT pg_typeof(max(id)) FROM sales"), "bigint");
}

#[test]
fn the_worker_connects_as_the_role_that_calls_start_and_not_as_the_user_of_its_session() {
    let (cluster, mut client) = server();
    client.batch_execute(CODE).expect("tables");
    client.batch_execute("ALTER ROLE shop LOGIN; SET ROLE shop").expect("a role");
    call(&mut client, "start('sales')");
    // A row that cannot be copied meanwhile.
    let mut other = cluster.connect();
    other.batch_execute("BEGIN; SELECT FROM sales FOR UPDATE").expect("a lock");
    client
        .batch_execute("SELECT snowflake_adopt.aim('sales', 'copied', 100, NULL); SELECT snowflake_adopt.has_reached('sales', 'copied', 'id')")
        .expect("a worker");
    let user = "SELECT DISTINCT usename FROM pg_stat_activity WHERE backend_type = 'snowflake_adopt'";
    cluster.wait_until(&format!("SELECT ({user}) IS NOT NULL"));
    assert_eq!(value(&mut other, user), "shop");
    let waits = "SELECT waits_for = 'rows that others have locked' FROM snowflake_adopt.progress";
    cluster.wait_until(waits);
    other.batch_execute("COMMIT").expect("no lock");
    call(&mut client, "finish('sales')");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM sales"), "bigint");
}

/// Each command of a migration is that of the owner of its table.
#[test]
fn tables_of_several_owners_are_adopted_and_rights_that_an_owner_lacks_are_told_before() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE app; CREATE ROLE store; CREATE ROLE dba LOGIN; GRANT app, store TO dba; ALTER TABLE orders OWNER TO app;
             DROP VIEW sizes; ALTER TABLE items OWNER TO store; ALTER TABLE other.notes OWNER TO store; ALTER FUNCTION touch() OWNER TO app",
        )
        .expect("owners");
    let obstacles = [
        "app, who owns public.orders, cannot create in its schema: GRANT CREATE, USAGE ON SCHEMA public TO app.",
        "store, who owns public.items, cannot create in its schema: GRANT CREATE, USAGE ON SCHEMA public TO store.",
        "store, who owns other.notes, cannot create in its schema: GRANT CREATE, USAGE ON SCHEMA other TO store.",
        "store, who owns public.items, cannot reference public.orders: GRANT REFERENCES ON public.orders TO store.",
        "app, who owns public.orders, cannot call snowflake_nextval(): GRANT USAGE ON SCHEMA ids TO app.",
    ];
    client
        .batch_execute("CREATE SCHEMA ids; ALTER EXTENSION snowflake_pg SET SCHEMA ids; SET search_path = public, ids")
        .expect("a schema");
    let mut dba = cluster.connect();
    dba.batch_execute("SET SESSION AUTHORIZATION dba").expect("a user");
    let refused = error(&mut dba, "CALL snowflake_adopt.start('orders')");
    let detail = refused.detail().expect("what stands in the way").to_owned();
    for says in obstacles {
        assert!(detail.lines().any(|line| line == says), "{says}: {detail}");
        let grant = says.split_once(": ").expect("what to do").1.trim_end_matches('.');
        client.batch_execute(grant).unwrap_or_else(|error| panic!("{grant}: {error:?}"));
    }
    for step in ["start", "undo", "start", "run", "finish"] {
        call(&mut dba, &format!("{step}('orders')"));
    }
    let kept = "SELECT string_agg(conrelid::regclass || ' ' || pg_get_constraintdef(oid), ', ' ORDER BY conrelid::regclass::text) FROM pg_constraint
        WHERE contype = 'f' AND convalidated AND connamespace <> 'snowflake_adopt'::regnamespace";
    assert_eq!(
        value(&mut client, kept),
        "items FOREIGN KEY (order_id) REFERENCES orders(id) ON DELETE CASCADE, orders FOREIGN KEY (parent) REFERENCES orders(id) ON DELETE SET NULL, \
         other.notes FOREIGN KEY (order_id) REFERENCES orders(id) ON UPDATE CASCADE ON DELETE CASCADE"
    );
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(order_id)) FROM items"), "bigint");
}

/// A literal of a domain's array runs the CHECK of the domain when it is read.
#[test]
fn no_type_of_the_owner_runs_its_code_with_the_rights_of_whoever_adopts_the_table() {
    let (_cluster, mut client) = server();
    client.batch_execute(CODE).expect("tables");
    client
        .batch_execute(
            "SET ROLE shop; CREATE DOMAIN eye AS integer CHECK (is_fine(VALUE));
             CREATE TABLE lines (sale integer DEFAULT array_length('{1}'::eye[], 1) REFERENCES sales, n integer);
             CREATE STATISTICS seen ON sale, (n + array_length('{1}'::eye[], 1)) FROM lines;
             CREATE INDEX odd ON lines (sale) WHERE n > array_length('{1}'::eye[], 1); DELETE FROM who; RESET ROLE",
        )
        .expect("a table");
    let refused = error(&mut client, "CALL snowflake_adopt.start('sales')");
    let says = "odd uses a type of another role: drop it until the end.";
    assert!(refused.detail().is_some_and(|detail| detail.contains(says)), "{refused:?}");
    client.batch_execute("DROP INDEX odd").expect("no index");
    for step in ["start", "run", "finish"] {
        call(&mut client, &format!("{step}('sales')"));
    }
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM who"), "shop");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(sale)) FROM lines"), "bigint");
}

/// A literal of a range reads its bounds.
#[test]
fn a_range_or_multirange_over_a_type_of_another_role_runs_no_code_of_that_role() {
    let (_cluster, mut client) = server();
    client.batch_execute(CODE).expect("tables");
    client
        .batch_execute(
            "SET ROLE shop; CREATE DOMAIN eye AS integer CHECK (is_fine(VALUE)); RESET ROLE;
             CREATE TYPE eyes AS RANGE (subtype = eye)",
        )
        .expect("a type");
    for literal in ["'[1,2]'::eyes", "'{[1,2]}'::eyes_multirange"] {
        client
            .batch_execute(&format!(
                "CREATE INDEX odd ON items (order_id) WHERE NOT isempty({literal}); DELETE FROM who"
            ))
            .expect("an index");
        let refused = error(&mut client, "CALL snowflake_adopt.start('orders')");
        let says = "odd uses a type of another role: drop it until the end.";
        assert!(refused.detail().is_some_and(|detail| detail.contains(says)), "{literal}: {refused:?}");
        client
            .batch_execute(&format!(
                "DROP INDEX odd; CREATE VIEW odd AS SELECT order_id FROM items WHERE NOT isempty({literal})"
            ))
            .expect("a view");
        let refused = error(&mut client, "CALL snowflake_adopt.start('orders')");
        let says = "view public.odd cannot be dropped and recreated: it uses a type of another role.";
        assert!(refused.detail().is_some_and(|detail| detail.contains(says)), "{literal}: {refused:?}");
        client.batch_execute("DROP VIEW odd").expect("no view");
    }
}

/// RESET ROLE would lead back to the superuser.
#[test]
fn code_of_the_owner_has_no_way_back_to_a_superuser_who_has_become_the_owner() {
    let (_cluster, mut client) = server();
    client.batch_execute(CODE).expect("tables");
    client
        .batch_execute(
            "CREATE ROLE clerk; SET ROLE shop; CREATE TABLE read (id serial PRIMARY KEY); CREATE INDEX ON read (id) WHERE is_same(1);
             GRANT SELECT ON read TO clerk; GRANT INSERT ON who TO clerk; DELETE FROM who; RESET ROLE",
        )
        .expect("a table");
    for role in ["shop", "clerk"] {
        client
            .batch_execute(&format!("SET ROLE {role}; SELECT snowflake_adopt.plan('read'); RESET ROLE"))
            .expect("a plan");
        assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM who"), role);
        client.batch_execute("DELETE FROM who").expect("no rows");
    }
    client.batch_execute("SET ROLE shop").expect("a role");
    run(&mut client, "plan", "'sales'");
    client.batch_execute("RESET ROLE").expect("no role");
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM who"), "shop");
    assert_eq!(value(&mut client, "SELECT pg_typeof(max(id)) FROM sales"), "bigint");
    // Whoever reads a table simplifies the conditions of its indexes.
    client
        .batch_execute(
            "SET ROLE shop; CREATE TABLE wide (id bigint PRIMARY KEY DEFAULT snowflake_nextval()); CREATE INDEX ON wide (id) WHERE is_same(1);
             DELETE FROM who",
        )
        .expect("a table");
    run(&mut client, "revert_plan", "'wide'");
    client.batch_execute("RESET ROLE").expect("no role");
    assert_eq!(value(&mut client, "SELECT string_agg(DISTINCT name, ', ') FROM who"), "shop");
}

#[test]
fn a_migration_that_a_superuser_goes_on_with_has_the_rights_of_whoever_began_it() {
    let (cluster, mut client) = server();
    client
        .batch_execute("CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; CREATE TABLE payroll (id integer, salary integer)")
        .expect("a table");
    let mut mallory = cluster.connect();
    mallory
        .batch_execute("SET SESSION AUTHORIZATION mallory; CREATE TABLE bait (id serial PRIMARY KEY)")
        .expect("a table");
    call(&mut mallory, "start('bait')");
    client
        .batch_execute("INSERT INTO snowflake_adopt.beside VALUES ('bait', 'payroll', 'id', 'salary')")
        .expect("a column");
    let refused = error(&mut client, "CALL snowflake_adopt.undo('bait')");
    assert!(refused.detail().is_some_and(|detail| detail.starts_with("must be ")), "{refused:?}");
    client.batch_execute("SELECT salary FROM payroll").expect("a column");
    // Nor does it lock others' tables.
    client.batch_execute("GRANT EXECUTE ON FUNCTION snowflake_adopt.lock(oid, boolean) TO mallory").expect("a right");
    let refused = error(&mut mallory, "SELECT snowflake_adopt.lock('payroll'::regclass, true)");
    assert!(refused.message().starts_with("must be "), "{refused:?}");
}

#[test]
fn a_table_that_was_given_to_another_role_is_not_changed_by_the_migration_of_the_former_owner() {
    let (cluster, mut client) = server();
    client.batch_execute("CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory").expect("a role");
    let mut mallory = cluster.connect();
    mallory.batch_execute("SET SESSION AUTHORIZATION mallory; CREATE TABLE given (id serial)").expect("a table");
    for step in ["start", "run"] {
        call(&mut mallory, &format!("{step}('given')"));
    }
    client.batch_execute("ALTER TABLE given OWNER TO postgres").expect("another owner");
    let refused = error(&mut mallory, "CALL snowflake_adopt.finish('given')");
    assert!(refused.detail().is_some_and(|detail| detail.starts_with("must be ")), "{refused:?}");
}

#[test]
fn only_a_role_that_may_advance_ids_adopts_a_table_with_greater_ones() {
    let (cluster, mut client) = server();
    client.batch_execute("CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory").expect("a role");
    let mut mallory = cluster.connect();
    mallory
        .batch_execute(
            "SET SESSION AUTHORIZATION mallory; CREATE TABLE wide (id bigint PRIMARY KEY);
             INSERT INTO wide SELECT snowflake_min_id(now() + '30 min')",
        )
        .expect("a table");
    call(&mut mallory, "start('wide')");
    let refused = error(&mut mallory, "CALL snowflake_adopt.finish('wide')");
    assert_eq!(refused.detail(), Some("permission denied for function snowflake_advance"));
    client.batch_execute("GRANT EXECUTE ON FUNCTION snowflake_advance TO mallory").expect("a right");
    call(&mut mallory, "finish('wide')");
}

/// The columns of two migrations would take each other's places.
#[test]
fn nobody_begins_a_migration_of_a_table_of_others_even_if_nothing_of_it_becomes_wider() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE mallory LOGIN; CREATE TABLE wide (id bigserial PRIMARY KEY); GRANT SELECT ON wide TO mallory",
        )
        .expect("a table");
    let mut mallory = cluster.connect();
    mallory.batch_execute("SET SESSION AUTHORIZATION mallory").expect("a user");
    assert_eq!(
        error(&mut mallory, "CALL snowflake_adopt.start('wide')").message(),
        "must be owner of table public.wide"
    );
}

#[test]
fn code_of_the_owner_that_calls_functions_of_ours_does_so_in_its_own_name_while_a_superuser_adopts() {
    let (_cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE mallory; GRANT CREATE ON SCHEMA public TO mallory; CREATE TABLE secret (id bigserial PRIMARY KEY); INSERT INTO secret VALUES (7);
             SET ROLE mallory; CREATE TABLE heard (answer text);
             CREATE FUNCTION asks(integer) RETURNS boolean LANGUAGE plpgsql AS $$
             BEGIN
                 BEGIN
                     INSERT INTO public.heard SELECT 'a plan' FROM snowflake_adopt.plan('public.secret');
                 EXCEPTION WHEN OTHERS THEN
                     INSERT INTO public.heard VALUES (SQLERRM);
                 END;
                 BEGIN
                     PERFORM snowflake_adopt.do_as(10, 'INSERT INTO public.heard SELECT count(*) FROM public.secret');
                 EXCEPTION WHEN OTHERS THEN
                     INSERT INTO public.heard VALUES (SQLSTATE);
                 END;
                 RETURN true;
             END $$;
             CREATE TABLE bait (id serial PRIMARY KEY, n integer, CHECK (asks(n))); INSERT INTO bait (n) VALUES (1), (2);
             DELETE FROM heard; RESET ROLE; GRANT EXECUTE ON FUNCTION snowflake_adopt.do_as(oid, text) TO mallory",
        )
        .expect("a table");
    for step in ["start", "run", "finish"] {
        call(&mut client, &format!("{step}('bait')"));
    }
    assert_eq!(
        value(&mut client, "SELECT string_agg(DISTINCT answer, ', ' ORDER BY answer) FROM heard"),
        "42501, permission denied for table secret"
    );
}

/// Functions of ours run with the rights of a superuser, and do in the name of whoever calls them what changes tables.
#[test]
fn whoever_calls_a_function_of_a_role_has_no_rights_of_that_role_beyond_it() {
    let (cluster, mut client) = server();
    client
        .batch_execute(
            "CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; CREATE TABLE secret (id bigserial PRIMARY KEY); INSERT INTO secret VALUES (7)",
        )
        .expect("a table");
    let mut mallory = cluster.connect();
    mallory
        .batch_execute(
            "SET SESSION AUTHORIZATION mallory;
             CREATE FUNCTION peeks() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS
                 $$ SELECT count(*) FROM snowflake_adopt.plan('public.secret') $$;
             GRANT EXECUTE ON FUNCTION peeks() TO PUBLIC",
        )
        .expect("a function");
    for (user, query) in
        [(&mut mallory, "SELECT count(*) FROM snowflake_adopt.plan('secret')"), (&mut client, "SELECT peeks()")]
    {
        assert_eq!(error(user, query).message(), "permission denied for table secret", "{query}");
    }
}
