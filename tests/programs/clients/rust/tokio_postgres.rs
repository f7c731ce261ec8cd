use serde_json::{Map, json};
use std::env;
use tokio_postgres::{Config, Error, NoTls};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let variable = |name| env::var(name).expect("a server");
    let mut config = Config::new();
    config.host(variable("PGHOST")).user(variable("PGUSER")).dbname(variable("PGDATABASE"));
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    client.batch_execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)").await?;
    let numbers: Vec<i32> = (0..500).collect();
    // recipe
    let rows = client.query("INSERT INTO orders (n) SELECT unnest($1::integer[]) RETURNING n, id", &[&numbers]).await?;
    let rows = rows.iter().map(|row| (row.get::<_, i32>("n"), row.get::<_, i64>("id")));
    // end
    let keys: Map<_, _> = rows.map(|(n, id)| (n.to_string(), id.to_string().into())).collect();
    println!("{}", json!({ "type": "i64", "keys": keys }));
    Ok(())
}
