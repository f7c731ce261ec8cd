use serde::{Serialize, Serializer};

// recipe
#[derive(Serialize)]
struct Order {
    #[serde(serialize_with = "as_text")]
    id: i64,
}

fn as_text<S: Serializer>(id: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(id)
}
// end

fn main() -> Result<(), serde_json::Error> {
    println!("{}", serde_json::to_string(&Order { id: 2_125_412_474_722_189_368 })?);
    Ok(())
}
