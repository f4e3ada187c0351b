//! What documents say of the program, held against the program.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

fn said(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_xtask")).args(arguments).output().expect("xtask starts");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("xtask writes UTF-8")
}

fn document(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask stands in the repository");
    std::fs::read_to_string(root.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Names of fields, and values that are one of a few.
fn names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Array(all) => all.iter().for_each(|one| names(one, found)),
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("properties", Value::Object(fields)) => found.extend(fields.keys().cloned()),
                    ("const", Value::String(name)) => drop(found.insert(name.clone())),
                    ("enum", Value::Array(all)) => {
                        found.extend(all.iter().filter_map(Value::as_str).map(String::from));
                    }
                    _ => {}
                }
                names(value, found);
            }
        }
        _ => {}
    }
}

/// Those of `names` that a document does not have in code. `latency_us_p50` may be told as `_p50`, `elf` and `files` as
/// `elf.files`.
fn missing(names: &BTreeSet<String>, document: &str) -> Vec<String> {
    let spans: BTreeSet<&str> = document.split('`').skip(1).step_by(2).collect();
    let tells = |span: &str, name: &str| {
        span.split('.').any(|part| part == name) || span.starts_with('_') && name.ends_with(span)
    };
    names.iter().filter(|name| !spans.iter().any(|span| tells(span, name))).cloned().collect()
}

#[test]
fn the_methodology_names_every_field_and_value_of_a_record() {
    let schema = serde_json::from_str(&said(&["record", "schema"])).expect("the schema is JSON");
    let mut found = BTreeSet::new();
    names(&schema, &mut found);
    assert!(found.contains("elapsed_s") && found.contains("fallback-io"), "{found:?}");
    assert_eq!(missing(&found, &document("METHODOLOGY.md")), Vec::<String>::new());
}

#[test]
fn a_field_that_a_document_forgets_is_found() {
    let schema =
        serde_json::json!({"properties": {"a_us_p50": {"const": "b"}}, "anyOf": [{"enum": ["c", "d"]}]});
    let mut found = BTreeSet::new();
    names(&schema, &mut found);
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), ["a_us_p50", "b", "c", "d"]);
    assert_eq!(missing(&found, "`_p50` and `x.b`, not c; `d`"), ["c"]);
}

#[test]
fn the_architecture_names_every_verb_that_people_may_use() {
    let help = said(&["--help"]);
    let commands =
        help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next()).expect("a list");
    let two = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let verbs: Vec<&str> =
        commands.lines().filter(two).filter_map(|line| line.split_whitespace().next()).collect();
    assert!(verbs.contains(&"bench"), "{help}");
    let text = document("ARCHITECTURE.md");
    let absent = verbs.iter().filter(|verb| **verb != "help" && !text.contains(&format!("`{verb}`")));
    assert_eq!(absent.collect::<Vec<_>>(), Vec::<&&str>::new());
}
