//! The programs in the folders of tests/programs/clients: how each is run, and what of it a document shows.

use serde_json::Value;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use testbed::{Cluster, project};

/// Where a server for a program listens beside its socket: JDBC needs that, and tests run at the same time.
pub fn address(program: &str) -> &'static str {
    match program {
        "java/Jdbc.java" => "127.0.18.1",
        "java/Within.java" => "127.0.18.2",
        _ => "",
    }
}

/// The JSON that a program prints.
pub fn run(program: &str, server: &Cluster) -> Value {
    printed(program, command(program).envs(server.environment()))
}

/// The JSON that the command for a program prints.
pub fn printed(program: &str, command: &mut Command) -> Value {
    let output = command.output().expect("an interpreter, by `tools/setup clients`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// What runs a program.
pub fn command(program: &str) -> Command {
    let path = path(program);
    let (folder, file) = program.split_once('/').expect("a folder");
    let mut command = match folder {
        "node" | "prisma" => Command::new("node"),
        "php" => Command::new("/usr/bin/php"),
        "ruby" => Command::new("/usr/bin/ruby"),
        "go" => Command::new("/usr/bin/go"),
        "java" => Command::new("/usr/bin/java"),
        "rust" => Command::new("cargo"),
        python => Command::new(project().join("target/clients").join(python).join("venv/bin/python3")),
    };
    match folder {
        // Debian's libraries are there, without modules.
        "go" => command.arg("run").arg(path).env("GO111MODULE", "off").env("GOPATH", "/usr/share/gocode"),
        "java" => {
            let jars = ["postgresql", "jackson-annotations", "jackson-core", "jackson-databind"];
            let jars = jars.map(|jar| format!("/usr/share/java/{jar}.jar")).join(":");
            command.args(["--class-path", &jars]).arg(path).arg(address(program))
        }
        "rust" => {
            let name = file.trim_end_matches(".rs");
            command.args(["run", "--quiet", "--locked", "--bin", name, "--manifest-path"]);
            command.arg(path.with_file_name("Cargo.toml"));
            command.arg("--target-dir").arg(project().join("target/clients/rust"))
        }
        python if python.starts_with("python") => {
            command.arg(path).env("DJANGO_SETTINGS_MODULE", "settings").env("PYTHONDONTWRITEBYTECODE", "yes")
        }
        _ => command.arg(path),
    };
    command
}

/// The programs in Python are the same for each version of a package.
fn path(program: &str) -> PathBuf {
    project().join("tests/programs/clients").join(program.replace("python_sqlalchemy_2_0/", "python/"))
}

/// The parts of a file that a document shows: between `recipe` and `end` in comments, without their indentation.
pub fn recipes(file: &str) -> Vec<String> {
    let text = fs::read_to_string(path(file)).expect("a program");
    let text = text.replace("// recipe\n", "# recipe\n").replace("// end\n", "# end\n");
    let shown = |part: &str| {
        let part = part.split("# end").next().expect("an end").trim_end();
        let indent = part.len() - part.trim_start_matches([' ', '\t']).len();
        let lines: Vec<&str> = part.lines().map(|line| line.get(indent..).unwrap_or("")).collect();
        lines.join("\n").trim_end().to_owned()
    };
    text.split("# recipe\n").skip(1).map(shown).collect()
}
