//! Lets the server find the libpq that the library was linked with, where that is not the system's. PGXS does the same.

fn main() {
    println!("cargo:rerun-if-env-changed=PQ_LIB_DIR");
    println!("cargo:rerun-if-changed=tools/build.rs");
    if let Ok(directory) = std::env::var("PQ_LIB_DIR")
        && !directory.starts_with("/usr/lib")
    {
        println!("cargo:rustc-link-arg-cdylib=-Wl,-rpath,{directory}");
    }
}
