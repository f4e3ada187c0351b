//! Compiles the shim and links libndbclient, where `PORTBENCH_NDB` names a folder with its headers and library.
//!
//! Without it nothing is compiled and the crate is bindings alone: everything that checks code without running it works
//! on machines that have no NDB Cluster.

use std::path::PathBuf;

fn main() {
    println!("cargo:rerun-if-env-changed=PORTBENCH_NDB");
    println!("cargo:rerun-if-changed=shim");
    let Some(ndb) = std::env::var_os("PORTBENCH_NDB").map(PathBuf::from) else { return };
    let library = ndb.join("lib");
    println!("cargo:rerun-if-changed={}", library.join("libndbclient_static.a").display());
    let headers = ["ndb", "ndb/ndbapi", "ndb/mgmapi", "mysql"].map(|folder| ndb.join("include").join(folder));
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .file("shim/ndbapi_shim.cpp")
        .includes(headers)
        .warnings(true)
        // The headers are another project's.
        .flag_if_supported("-Wno-unused-parameter")
        .compile("ndbapi_shim");
    println!("cargo:rustc-link-search=native={}", library.display());
    println!("cargo:rustc-link-lib=static=ndbclient_static");
    for name in ["ssl", "crypto", "z"] {
        println!("cargo:rustc-link-lib=dylib={name}");
    }
}
