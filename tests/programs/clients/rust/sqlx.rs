use serde_json::{Map, json};
use sqlx::postgres::{PgConnectOptions, PgConnection};
use sqlx::{ConnectOptions, Executor};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sqlx::Error> {
    let mut connection: PgConnection = PgConnectOptions::new().connect().await?;
    connection.execute("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT snowflake_nextval(), n integer)").await?;
    let numbers: Vec<i32> = (0..500).collect();
    // recipe
    let rows: Vec<(i32, i64)> = sqlx::query_as("INSERT INTO orders (n) SELECT unnest($1::integer[]) RETURNING n, id")
        .bind(&numbers)
        .fetch_all(&mut connection)
        .await?;
    // end
    let keys: Map<_, _> = rows.iter().map(|(n, id)| (n.to_string(), id.to_string().into())).collect();
    println!("{}", json!({ "type": "i64", "keys": keys }));
    Ok(())
}
