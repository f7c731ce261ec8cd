//! Lets the server find the libpq that the library was linked with, where that is not the system's. PGXS does the same.
//! Refuses Windows, where processes of PostgreSQL do not inherit what the library keeps.

fn main() {
    println!("cargo:rerun-if-env-changed=PQ_LIB_DIR");
    println!("cargo:rerun-if-changed=tools/build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|target| target == "windows") {
        println!("cargo::error=snowflake_pg does not run on Windows: use its functions in plain SQL, docs/hosted.md");
    }
    if let Ok(directory) = std::env::var("PQ_LIB_DIR")
        && !directory.starts_with("/usr/lib")
    {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-rpath,{directory}");
    }
}
