//! Compiles functions of MySQL's sources, once as released and once patched, where `PORTBENCH_SOURCES` names a folder
//! that holds both, `released` and `patched`. Without it the crate is bindings alone.

use std::fs;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo:rerun-if-env-changed=PORTBENCH_SOURCES");
    println!("cargo:rerun-if-changed=shim");
    let Some(sources) = std::env::var_os("PORTBENCH_SOURCES").map(PathBuf::from) else { return };
    println!("cargo:rerun-if-changed={}", sources.display());
    println!("cargo:rustc-cfg=product_sources");
    for name in ["released", "patched"] {
        variant(name, &sources.join(name));
    }
    zlib(&sources.join("released"));
}

/// One of the two, in a namespace of its own.
fn variant(name: &str, tree: &Path) {
    let made = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join(name);
    fs::create_dir_all(&made).expect("a folder");
    let header = tree.join("storage/innobase/include/ut0ut.h");
    let text = fs::read_to_string(&header).unwrap_or_else(|error| panic!("{}: {error}", header.display()));
    fs::write(made.join("ut_relax.h"), relax(&text)).expect("a header");
    cc::Build::new()
        .cpp(true)
        .std("c++20")
        .file("shim/variant.cpp")
        .define("PB_NAME", name)
        .define("NDEBUG", None)
        // Before the tree's own: what needs a configured server there.
        .include("shim")
        .include(&made)
        .include(tree)
        .includes(["include", "storage/innobase/include"].map(|folder| tree.join(folder)))
        // The sources are another project's.
        .warnings(false)
        .opt_level(2)
        .compile(&format!("product_{name}"));
}

/// The part of ut0ut.h that says how a spin loop waits: from the first macro to the end of the last choice.
fn relax(text: &str) -> &str {
    let first = "#if defined(HAVE_PAUSE_INSTRUCTION)";
    let last = "#define UT_RESUME_PRIORITY_CPU() ((void)0)\n#endif\n";
    let begin = text.find(first).expect("ut0ut.h chooses a pause");
    let end = text.find(last).expect("ut0ut.h chooses a priority") + last.len();
    &text[begin..end]
}

/// The zlib that the release brings, by its own build file.
fn zlib(tree: &Path) {
    let folders =
        fs::read_dir(tree.join("extra/zlib")).expect("extra/zlib").flatten().map(|entry| entry.path());
    let source =
        folders.into_iter().find(|path| path.join("CMakeLists.txt").exists()).expect("zlib's CMakeLists.txt");
    let mut config = cmake::Config::new("shim/zlib");
    config.define("ZLIB_SOURCE", &source);
    if let Some(file) = std::env::var_os("PORTBENCH_TOOLCHAIN_FILE") {
        config.define("CMAKE_TOOLCHAIN_FILE", file);
    }
    let built = config.profile("Release").build_target("zlib").build().join("build/zlib");
    // The part of zlib.h that configure makes is in the build folder. The archive comes behind what needs it.
    cc::Build::new()
        .file("shim/zlib/zlib.c")
        .includes([Path::new("shim"), &built, &source])
        .compile("product_zlib");
    println!("cargo:rustc-link-search=native={}", built.display());
    println!("cargo:rustc-link-lib=static=zlib");
}
