//! What `snowflake_encrypt()` makes of IDs that come one after the other: whether the results are distinct and come back,
//! whether they are spread evenly, and what a call costs.
//!
//! Chi-square is the distance from an even distribution modulo n. Of 99 moduli, about one exceeds the bound that a fair die
//! stays below in 99 of 100 tries. The bounds are by Wilson and Hilferty's approximation.
//!
//! Run with `make demo NAME=encrypt`; `IDS=100000` for another number of IDs.

use snowflake_core::id::encrypt::Key;
use std::error::Error;
use std::time::Instant;
use testbed::{Cluster, value};

/// What a standard normal distribution stays below in 99 of 100 tries, and in 999 of 1000.
const BOUNDS: [f64; 2] = [2.326, 3.090];

fn main() -> Result<(), Box<dyn Error>> {
    let count: u32 = std::env::args().nth(1).map_or(Ok(10_000_000), |ids| ids.parse())?;
    let cluster = Cluster::builder().worker(7).start();
    let mut client = cluster.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; SET work_mem = '1GB'")?;
    println!("==> {count} IDs of one server, encrypted and decrypted in SQL by a key of 32 bytes");
    client.batch_execute(&format!(
        "CREATE TEMPORARY TABLE ids AS
             SELECT id, snowflake_encrypt(id, key) AS hidden, key
             FROM (SELECT snowflake_nextval() AS id FROM generate_series(1, {count})) ids, decode(repeat('5a', 32), 'hex') key"
    ))?;
    for (what, query) in [
        ("distinct: ", "SELECT count(*) FROM (SELECT DISTINCT hidden FROM ids) d"),
        ("equal:    ", "SELECT count(*) FROM ids WHERE snowflake_decrypt(hidden, key) = id"),
    ] {
        let found = value(&mut client, query);
        println!("{what} {found}");
        if found != count.to_string() {
            return Err(format!("not all {count} IDs").into());
        }
    }
    println!("least:     {}", value(&mut client, "SELECT min(hidden) FROM ids"));
    println!("greatest:  {}", value(&mut client, "SELECT max(hidden) FROM ids"));

    let mut hidden = Vec::new();
    for row in client.query("SELECT hidden FROM ids", &[])? {
        hidden.push(row.get::<_, i64>(0));
    }
    let chi_squares: Vec<_> = (2..=100).map(|n| (n, chi_square(&hidden, n))).collect();
    for (bound, tries) in BOUNDS.into_iter().zip([100, 1000]) {
        let above = chi_squares.iter().filter(|(n, found)| *found > quantile(*n - 1, bound)).count();
        println!("chi-square modulo 2 to 100: {above} of 99 above the bound for one in {tries}");
    }
    let (n, worst) = chi_squares
        .iter()
        .max_by(|a, b| (a.1 / quantile(a.0 - 1, BOUNDS[0])).total_cmp(&(b.1 / quantile(b.0 - 1, BOUNDS[0]))))
        .ok_or("no modulus")?;
    println!("            the worst: {worst:.1} modulo {n}, with a bound of {:.1}", quantile(n - 1, BOUNDS[0]));

    println!("\n==> What a call costs");
    let key = "'\\x".to_owned() + &"5a".repeat(32) + "'";
    for (what, call) in [
        ("nothing", "i".to_owned()),
        ("snowflake_nextval()", "snowflake_nextval()".to_owned()),
        ("snowflake_encrypt(i, key)", format!("snowflake_encrypt(i, {key})")),
        ("snowflake_decrypt(i, key)", format!("snowflake_decrypt(i, {key})")),
        ("uuid_send(gen_random_uuid())", "uuid_send(gen_random_uuid())".to_owned()),
    ] {
        let begin = Instant::now();
        client.batch_execute(&format!("SELECT count({call}) FROM generate_series(1::bigint, 1000000) i"))?;
        println!("{what:<30} {:>6.0} ns a row", begin.elapsed().as_secs_f64() * 1000.0);
    }
    for length in [16, 24, 32] {
        let begin = Instant::now();
        let sum = (0..200_000).fold(0, |sum: u64, id| match Key::new(&[0x5a; 32][..length]) {
            Ok(key) => sum ^ key.encrypt(id),
            Err(_) => sum,
        });
        assert_ne!(sum, 0);
        println!("in the core, {length} bytes {:>15.0} ns", begin.elapsed().as_secs_f64() * 5000.0);
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn chi_square(numbers: &[i64], n: i64) -> f64 {
    let mut seen = vec![0_u32; usize::try_from(n).unwrap_or(1)];
    for number in numbers {
        seen[usize::try_from(number % n).unwrap_or(0)] += 1;
    }
    let even = numbers.len() as f64 / n as f64;
    seen.into_iter().map(|seen| (f64::from(seen) - even).powi(2) / even).sum()
}

/// What chi-square stays below, where a standard normal distribution stays below `bound`.
#[expect(clippy::cast_precision_loss, reason = "at most 99")]
fn quantile(degrees: i64, bound: f64) -> f64 {
    let degrees = degrees as f64;
    let term = 2.0 / (9.0 * degrees);
    degrees * (1.0 - term + bound * term.sqrt()).powi(3)
}
