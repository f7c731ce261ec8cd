use serde_json::json;
use std::env;
use std::time::{Duration, SystemTime};
use tokio_postgres::{Config, Error, NoTls};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let variable = |name| env::var(name).expect("a server");
    let mut config = Config::new();
    config.host(variable("PGHOST")).user(variable("PGUSER")).dbname(variable("PGDATABASE"));
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    let hour = SystemTime::now() - Duration::from_hours(1);
    let rows = client.query("SELECT n FROM orders WHERE snowflake_within(id, $1)", &[&hour]).await?;
    let numbers: Vec<i32> = rows.iter().map(|row| row.get("n")).collect();
    println!("{}", json!({ "since": numbers }));
    Ok(())
}
