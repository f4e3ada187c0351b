//! The committed bindings are those of the header.

use std::path::Path;

/// With this variable set, the test writes the bindings instead of comparing them.
const WRITE: &str = "PORTBENCH_WRITE_BINDINGS";

#[test]
fn the_bindings_are_those_of_the_header() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let made = bindgen::Builder::default()
        .header(here.join("shim/product.h").display().to_string())
        .allowlist_function("pb_.*")
        .use_core()
        .generate_comments(false)
        .merge_extern_blocks(true)
        .disable_header_comment()
        .rust_target(bindgen::RustTarget::stable(85, 0).expect("a version that bindgen knows"))
        .rust_edition(bindgen::RustEdition::Edition2024)
        .formatter(bindgen::Formatter::Prettyplease)
        .generate()
        .expect("bindgen needs libclang, e.g. Debian's package libclang1-14")
        .to_string();
    assert!(made.contains("pub fn pb_patched_mb"), "the bindings hold none of the functions");
    let file = here.join("src/bindings.rs");
    let made = format!(
        "//! Made of shim/product.h by the test in tests/bindings.rs: {WRITE}=1 makes it anew.\n\n{made}"
    );
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(&file, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&file).unwrap();
    assert!(committed == made, "src/bindings.rs is stale: run {WRITE}=1 cargo test --package product-sys");
}
