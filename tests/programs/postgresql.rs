//! PostgreSQL's own regression and isolation tests: on a server without the library, on one with it, and on one where
//! serial columns get Snowflake IDs. What differs from the first is in tests/programs/postgresql, with what explains
//! it; see [`list`].

mod list;
mod results;

use list::List;
use results::Results;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use testbed::{Cluster, pg_config, postgresql, project, test};

/// The folders below src/test, with the program that runs their tests, and its arguments.
const SUITES: [(&str, &str, &[&str]); 2] = [
    ("regress", "pg_regress", &["--schedule=parallel_schedule", "--max-concurrent-tests=20", "--dbname=regression"]),
    ("isolation", "pg_isolation_regress", &["--schedule=isolation_schedule", "--dbname=isolation_regression"]),
];

/// Servers with the library, and what they have beside it.
const LOADED: [(&str, &[(&str, &str)]); 2] =
    [("preloaded", &[]), ("serial", &[("snowflake_pg.serial_schemas", "*"), ("snowflake_pg.widen_serial", "on")])];

/// What a server says of an error in its own code.
const BUGS: [&str; 7] =
    ["TRAP: ", "PANIC: ", "terminated by signal", "reference leak", "was not closed", "still active", " XX000: "];

/// The results of both suites on a server, and what its log says of bugs.
struct Run {
    results: [Results; 2],
    bugs: BTreeSet<String>,
}

fn source() -> PathBuf {
    project().join(format!("target/postgresql-source/{}/src/test", postgresql()))
}

fn done(command: &mut Command) {
    assert!(command.status().expect("a program").success(), "{command:?}");
}

/// The modules that the regression tests load.
fn modules(cluster: &Cluster) -> PathBuf {
    let folder = cluster.make_directory("modules");
    let mut compiler = Command::new("gcc");
    compiler.args(["-shared", "-fPIC", "-w", "-I"]).arg(pg_config("--includedir-server"));
    done(compiler.arg("-o").arg(folder.join("regress.so")).arg(source().join("regress/regress.c")));
    for name in ["refint.so", "autoinc.so"] {
        fs::copy(pg_config("--pkglibdir").join(name), folder.join(name)).expect("a module of contrib");
    }
    folder
}

/// Runs both suites on a new server. The results also stay in target.
fn run(name: &str, loaded: Option<&[(&str, &str)]>) -> Run {
    let mut builder = Cluster::builder().set("fsync", "off").set("max_prepared_transactions", 10);
    builder = builder.set("log_error_verbosity", "verbose");
    if let Some(settings) = loaded {
        builder = settings.iter().fold(builder.worker(7), |builder, (name, value)| builder.set(name, value));
    }
    let cluster = builder.start();
    let modules = modules(&cluster);
    let results = SUITES.map(|(suite, program, arguments)| {
        let [input, output] = ["input", "output"].map(|of| cluster.make_directory(&format!("{suite} {of}")));
        done(Command::new("cp").arg("--recursive").arg(source().join(suite).join(".")).arg(&input));
        let programs = pg_config("--pgxs").ancestors().nth(2).expect("src").join("test").join(suite);
        let mut tests = cluster.foreign_command();
        tests.current_dir(&input).arg(programs.join(program)).args(arguments);
        tests.args(["--inputdir=.", "--user=postgres", "--port=5432"]);
        for (option, folder) in
            [("outputdir", &*output), ("dlpath", &modules), ("bindir", &cluster.bindir()), ("host", cluster.host())]
        {
            tests.arg(format!("--{option}={}", folder.display()));
        }
        if loaded.is_some() {
            tests.arg("--load-extension=snowflake_pg");
        }
        let said = tests.output().expect("PostgreSQL's tests");
        let said = String::from_utf8_lossy(&[said.stdout, said.stderr].concat()).into_owned();
        let counts = said.lines().find(|line| line.contains("tests failed") || line.contains("tests passed"));
        println!("{name}, {suite}: {}", counts.unwrap_or_else(|| panic!("{said}")).trim());
        let kept = project().join("target/postgresql-suites").join(name).join(suite);
        Results::keep(&output.join("results"), cluster.host(), &kept)
    });
    // Without the time and the process.
    let log = cluster.log();
    let messages = log.lines().filter(|line| BUGS.iter().any(|bug| line.contains(bug)));
    let bugs = messages.filter_map(|line| line.split_once("] ")).map(|(_, message)| message.to_owned()).collect();
    Run { results, bugs }
}

#[test(By("make suite NAME=postgresql"))]
fn postgresqls_own_tests_find_no_difference_that_is_not_in_the_list_with_what_explains_it() {
    let plain = run("plain", None);
    let mut differences = Vec::new();
    for (name, settings) in LOADED {
        let loaded = run(name, Some(settings));
        let bugs: Vec<_> = loaded.bugs.difference(&plain.bugs).collect();
        assert!(bugs.is_empty(), "{name}: {bugs:#?}");
        for ((suite, ..), (plain, loaded)) in SUITES.iter().zip(plain.results.iter().zip(&loaded.results)) {
            differences.extend(loaded.differences(plain, &format!("{name} {suite}")));
        }
    }
    let list = List::read();
    let now = list.with(&differences);
    let written = project().join("target/postgresql-suites/differences");
    fs::write(&written, &now).expect("a file in target");
    let mut diff = Command::new("diff");
    let changes = diff.args(["--unified=1"]).arg(list.path()).arg(&written).output().expect("diff");
    let changes = String::from_utf8_lossy(&changes.stdout).into_owned();
    let file = list.path().file_name().expect("a name").display();
    assert!(
        changes.is_empty(),
        "look at the results in target/postgresql-suites; to list what is right, copy differences from there to \
         tests/programs/postgresql/{file}, and replace each question mark\n{changes}"
    );
}

#[test]
fn what_explains_a_difference_is_in_its_document_and_is_needed() {
    List::read().assert_explained();
}
