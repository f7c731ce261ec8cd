//! A project of Django goes over to Snowflake IDs, and runs its tests, as docs/clients.md shows; a whole schema of one
//! does by a plan, and back.

use super::program;
use serde_json::Value;
use testbed::postgres::{Client, NoTls};
use testbed::{Cluster, test};

/// With a database and a role of the application, which is no superuser.
fn server() -> Cluster {
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE ROLE shop LOGIN CREATEDB").expect("a role");
    client.batch_execute("CREATE DATABASE shop OWNER shop").expect("a database");
    let extensions = "CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt";
    connect(&cluster, "shop").batch_execute(extensions).expect("the extensions");
    cluster
}

fn connect(cluster: &Cluster, database: &str) -> Client {
    cluster.config().dbname(database).connect(NoTls).expect("a connection")
}

/// What manage.py says, as the role of the application.
fn manage(cluster: &Cluster, arguments: &[&str], settings: &[(&str, &str)]) -> Result<String, String> {
    let mut command = program::command("python/manage.py");
    command.args(arguments).envs(cluster.environment()).env("PGDATABASE", "shop").env("PGUSER", "shop");
    let output = command.envs(settings.iter().copied()).output().expect("Python, by `tools/setup clients`");
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if output.status.success() { Ok(said) } else { Err(said) }
}

/// Adds an order with a tag by SQL, and returns the keys of its rows.
fn add(client: &mut Client) -> [i64; 4] {
    let keys = "WITH customer AS (INSERT INTO shop_customer (name) VALUES ('Ada') RETURNING id),
             tag AS (INSERT INTO shop_tag (name) VALUES ('new') RETURNING id),
             added AS (INSERT INTO shop_order (customer_id) SELECT id FROM customer RETURNING id),
             tagged AS (INSERT INTO shop_order_tags (order_id, tag_id) SELECT added.id, tag.id FROM added, tag RETURNING id)
        SELECT customer.id, tag.id, added.id, tagged.id::bigint FROM customer, tag, added, tagged";
    let row = client.query_one(keys, &[]).expect("an order");
    [0, 1, 2, 3].map(|column| row.get(column))
}

#[test]
fn a_project_of_django_with_rows_goes_over_to_snowflake_ids_by_its_migrations() {
    let cluster = server();
    let mut client = connect(&cluster, "shop");
    manage(&cluster, &["migrate", "shop", "0001"], &[]).expect("tables with identity columns");
    // As before Django 4.1, and with the `AutoField` that was the default before Django 3.2.
    let serial = "SET ROLE shop;
        ALTER TABLE shop_order_tags ALTER id TYPE integer;
        ALTER TABLE shop_tag ALTER id DROP IDENTITY;
        CREATE SEQUENCE shop_tag_id_seq OWNED BY shop_tag.id;
        ALTER TABLE shop_tag ALTER id SET DEFAULT nextval('shop_tag_id_seq')";
    client.batch_execute(serial).expect("a serial column");
    assert_eq!(add(&mut client), [1; 4]);

    manage(&cluster, &["makemigrations", "--check"], &[]).expect("the migrations that Django would write");
    manage(&cluster, &["migrate", "shop", "0002"], &[]).expect("the models migrated");
    let keys = add(&mut client);
    assert!(keys[..3].iter().all(|&key| key > 1 << 60), "{keys:?}");
    assert_eq!(keys[3], 2, "the table of many-to-many relations has kept its identity");
    manage(&cluster, &["migrate"], &[]).expect("that table migrated");
    let keys = add(&mut client);
    assert!(keys.iter().all(|&key| key > 1 << 60), "{keys:?}");
    let left = "SELECT count(*) FROM pg_class WHERE relkind = 'S' AND relname LIKE 'shop%'";
    assert_eq!(client.query_one(left, &[]).expect("a count").get::<_, i64>(0), 0, "sequences are left");
}

#[test]
fn the_plan_of_adoption_does_what_the_migrations_of_django_do() {
    let cluster = server();
    let mut client = connect(&cluster, "shop");
    client.batch_execute("SET ROLE shop").expect("the role");
    manage(&cluster, &["migrate", "shop", "0001"], &[]).expect("tables with identity columns");
    add(&mut client);
    for table in ["customer", "tag", "order", "order_tags"] {
        let plan =
            client.query(&format!("SELECT command FROM snowflake_adopt.plan('shop_{table}')"), &[]).expect("a plan");
        for step in plan {
            client.batch_execute(step.get(0)).expect("a step");
        }
    }
    manage(&cluster, &["migrate", "--fake", "shop"], &[]).expect("migrations that are marked as applied");
    manage(&cluster, &["makemigrations", "--check"], &[]).expect("nothing to do");
    assert!(add(&mut client).iter().all(|&key| key > 1 << 60));
}

#[test]
fn tests_of_a_project_of_django_need_the_extension_in_template1_or_a_superuser() {
    let cluster = server();
    let field = ("DEFAULT_AUTO_FIELD", "shop.fields.SnowflakeAutoField");
    let superuser = ("PGUSER", "postgres");
    let run = |settings: &[(&str, &str)]| manage(&cluster, &["test", "shop", "--noinput"], settings);
    let fails = |settings: &[(&str, &str)], why: &str| {
        let said = run(settings).expect_err(why);
        assert!(said.contains(why), "{said}");
        connect(&cluster, "postgres").batch_execute("DROP DATABASE IF EXISTS test_shop").expect("no more tests");
    };
    fails(&[], "permission denied to create extension");
    run(&[superuser]).expect("CreateExtension");
    // The table of migrations has such a key, too.
    fails(&[superuser, field], "function snowflake_nextval() does not exist");
    connect(&cluster, "template1").batch_execute("CREATE EXTENSION snowflake_pg").expect("the extension");
    run(&[]).expect("tests of the role");
    run(&[field]).expect("tests with that key everywhere");
}

const POLLS: (&str, &str) = ("DJANGO_SETTINGS_MODULE", "polls_settings");

/// Runs a plan for all tables of the application, as its role.
fn run_plan(client: &mut Client, which: &str) {
    let steps = client.query(&format!("SELECT command FROM snowflake_adopt.{which}"), &[]);
    let commands: Vec<String> = steps.expect("a plan").iter().filter_map(|step| step.get(0)).collect();
    assert!(!commands.is_empty(), "{which}");
    for command in commands {
        client.batch_execute(&command).unwrap_or_else(|error| panic!("{command}: {error:?}"));
    }
}

/// A new user logs in and asks a question: the keys of both, or what Django says.
fn log_in(cluster: &Cluster) -> Result<[i64; 2], String> {
    let mut command = program::command("python/log_in_django.py");
    command.envs(cluster.environment()).env("PGDATABASE", "shop").env("PGUSER", "shop");
    let output = command.output().expect("Python, by `tools/setup clients`");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let keys: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    Ok(["user", "question"].map(|of| keys[of].as_i64().expect("a key")))
}

/// What comes with Django declares its keys as 32 bits.
#[test]
fn new_users_of_a_project_of_django_log_in_after_a_plan_for_its_schema_and_after_the_way_back() {
    let cluster = server();
    let mut client = connect(&cluster, "shop");
    client.batch_execute("SET ROLE shop").expect("the role");
    // First those to which it refers, as it has no migrations.
    for arguments in [&["migrate"][..], &["migrate", "--run-syncdb"]] {
        manage(&cluster, arguments, &[POLLS]).expect("tables");
    }
    let agrees = || {
        for arguments in [&["check"][..], &["migrate", "--check"], &["makemigrations", "--check"]] {
            manage(&cluster, arguments, &[POLLS]).unwrap_or_else(|said| panic!("{arguments:?}: {said}"));
        }
    };
    assert_eq!(log_in(&cluster), Ok([1, 1]));

    run_plan(&mut client, "schema_plan('public')");
    agrees();
    let [user, question] = log_in(&cluster).expect("a session");
    assert!(user == 2 && question > 1 << 60, "{user}, {question}");
    run_plan(&mut client, "revert_schema_plan('public')");
    agrees();
    assert_eq!(log_in(&cluster), Ok([3, 2]));

    // As the plan says, models must declare the wider columns.
    run_plan(&mut client, "schema_plan('public', widen => true)");
    let said = log_in(&cluster).expect_err("keys that Django takes for 32 bits");
    assert!(said.contains("DoesNotExist"), "{said}");
    run_plan(&mut client, "revert_schema_plan('public')");
    agrees();
    assert_eq!(log_in(&cluster), Ok([4, 3]));
}
