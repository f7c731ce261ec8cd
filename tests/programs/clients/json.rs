//! Back ends write an ID into JSON as a string, as docs/formats.md shows. The programs themselves see that they read
//! it.

use super::program;
use testbed::{Cluster, test};

const ID: &str = "2125412474722189368";

fn write(programs: &[&str]) {
    // For Django and Rails, which look at their database.
    let server = Cluster::builder().worker(7).start();
    let tables = "CREATE EXTENSION snowflake_pg; CREATE TABLE orders (id bigint PRIMARY KEY)";
    server.connect().batch_execute(tables).expect("a table");
    for program in programs {
        let printed = program::run(program, &server);
        assert_eq!(printed["id"], ID, "{program}: {printed}");
    }
}

pub const PYTHON: [&str; 2] = ["python/json_pydantic.py", "python/json_rest_framework.py"];

pub const OTHERS: [&str; 5] = ["node/json.js", "ruby/json.rb", "go/json.go", "java/Json.java", "rust/json.rs"];

#[test]
fn back_ends_in_python_write_ids_into_json_as_strings() {
    write(&PYTHON);
}

#[test(By("make suite NAME=clients"))]
fn back_ends_in_other_languages_write_ids_into_json_as_strings() {
    write(&OTHERS);
}
