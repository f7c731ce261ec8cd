//! The image of the extensions, as an operator mounts it: a server has nothing else of snowflake_pg.
//!
//! `make suite NAME=image` makes the image, and runs this on PostgreSQL 18.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use testbed::{Cluster, Registry, postgresql, test, value, version_of};

fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap_or_else(|error| panic!("{program}: {error}"));
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut found: Vec<_> = entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    found.sort_unstable();
    found
}

/// The archive that `make suite NAME=image` names.
fn archive() -> String {
    let path = std::env::var("SNOWFLAKE_PG_IMAGE").expect("make suite NAME=image sets SNOWFLAKE_PG_IMAGE");
    format!("oci-archive:{path}")
}

/// A server that finds the extensions in the image alone. Mounted, it would be `/extensions/snowflake-pg`.
fn with_image(mut cluster: Cluster, image: &str) -> Cluster {
    cluster.configure("extension_control_path", format!("{image}/share:$system"));
    cluster.configure("dynamic_library_path", format!("{image}/lib:$libdir"));
    cluster.start();
    cluster
}

#[test(By("make suite NAME=image"))]
fn an_image_has_what_an_operator_expects_and_nothing_else() {
    let config: serde_json::Value =
        serde_json::from_str(&run("skopeo", &["inspect", "--config", &archive()])).expect("JSON");
    assert_eq!(config["config"]["User"], "65532:65532");
    let labels: BTreeMap<String, String> = serde_json::from_value(config["config"]["Labels"].clone()).expect("labels");
    assert_eq!(labels["io.cloudnativepg.image.base.pgmajor"], postgresql().to_string());
    assert_eq!(labels["org.opencontainers.image.version"], env!("CARGO_PKG_VERSION"));
    let manifest: serde_json::Value =
        serde_json::from_str(&run("skopeo", &["inspect", "--raw", &archive()])).expect("JSON");
    assert_eq!(manifest["annotations"], config["config"]["Labels"]);
}

#[test(By("make suite NAME=image"))]
fn a_server_with_the_files_of_the_image_alone_issues_ids_adopts_tables_and_is_a_registry() {
    let cluster = Cluster::builder().create();
    let directory = cluster.make_directory("image");
    let layout = format!("oci:{}/layout:tag", directory.display());
    run("skopeo", &["copy", "--quiet", &archive(), &layout]);
    let bundle = directory.join("bundle").display().to_string();
    run("umoci", &["unpack", "--rootless", "--image", layout.strip_prefix("oci:").expect("a layout"), &bundle]);
    let image = format!("{bundle}/rootfs");

    let extensions = ["snowflake_adopt", "snowflake_feed", "snowflake_pg", "snowflake_registry"];
    let mut expected =
        vec![format!("licenses/postgresql-{}-snowflake-pg/copyright", postgresql()), "lib/snowflake_pg.so".to_owned()];
    expected.extend(extensions.iter().flat_map(|name| {
        [format!("{name}--{}.sql", version_of(name)), format!("{name}.control")]
            .map(|file| format!("share/extension/{file}"))
    }));
    expected.sort_unstable();
    let found: Vec<_> = files(Path::new(&image))
        .iter()
        .map(|file| file.strip_prefix(&image).expect("inside").display().to_string())
        .collect();
    assert_eq!(found, expected);
    // A server's package needs these, too: the image brings none of them.
    let needed = run("objdump", &["-p", &format!("{image}/lib/snowflake_pg.so")]);
    for library in needed.lines().filter_map(|line| line.trim().strip_prefix("NEEDED")).map(str::trim) {
        assert!(
            ["libpq.so.5", "libgcc_s.so.1", "libc.so.6"].contains(&library) || library.starts_with("ld-linux"),
            "{library}"
        );
    }

    // The servers' user must get through, and see that these files are read.
    run("chmod", &["-R", "a+rX", &directory.display().to_string()]);
    for name in extensions {
        let control = format!("{image}/share/extension/{name}.control");
        let text = fs::read_to_string(&control).expect("a control file");
        fs::write(&control, text + "comment = 'of the image'\n").expect("own file");
    }
    let registry = Registry::on(with_image(cluster, &image));
    let mut dba = registry.connect();
    dba.batch_execute("CREATE EXTENSION snowflake_registry; CREATE ROLE fleet LOGIN IN ROLE snowflake_registry_server")
        .expect("a registry");
    let member = Cluster::builder().worker("registry").set("snowflake_pg.registry_conninfo", registry.conninfo());
    let server = with_image(member.create(), &image);
    let mut client = server.connect();
    client.batch_execute("CREATE EXTENSION snowflake_pg; CREATE EXTENSION snowflake_adopt").expect("the extensions");
    server.wait_until("SELECT worker_id_source = 'registry' AND lease_until > now() FROM snowflake_status");
    assert_eq!(value(&mut client, "SELECT worker_id FROM snowflake_decode(snowflake_nextval())"), "1023");
    assert_eq!(value(&mut dba, "SELECT state FROM snowflake_registry.workers WHERE worker_id = 1023"), "leased");
    let comments = "SELECT string_agg(name || ' ' || comment, ', ' ORDER BY name) FROM pg_available_extensions WHERE name LIKE 'snowflake%'";
    assert_eq!(
        value(&mut client, comments),
        "snowflake_adopt of the image, snowflake_feed of the image, snowflake_pg of the image, snowflake_registry of the image"
    );
    let postmaster = value(&mut client, "SELECT pg_backend_pid()");
    let maps = fs::read_to_string(format!("/proc/{postmaster}/maps")).expect("a process");
    let libraries: Vec<_> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|file| file.ends_with("/snowflake_pg.so"))
        .collect();
    assert!(
        !libraries.is_empty() && libraries.iter().all(|file| *file == format!("{image}/lib/snowflake_pg.so")),
        "{libraries:?}"
    );
}
