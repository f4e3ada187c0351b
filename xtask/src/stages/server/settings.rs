//! What a server was asked to run with, and what it says that it runs with.

use std::collections::BTreeMap;

/// The settings that arguments of the form `--name=value` ask for.
pub fn requested(arguments: &[String]) -> BTreeMap<String, String> {
    let pairs = arguments.iter().filter_map(|argument| argument.strip_prefix("--")?.split_once('='));
    pairs.map(|(name, value)| (name.replace('-', "_"), value.to_string())).collect()
}

/// Where the server's settings are not those that were asked for.
pub fn differences(asked: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Vec<String> {
    let plain = |value: &str| match value.to_ascii_uppercase().as_str() {
        "ON" | "1" | "YES" | "TRUE" => "ON".to_string(),
        "OFF" | "0" | "NO" | "FALSE" => "OFF".to_string(),
        other => bytes(other).map_or_else(|| other.to_string(), |number| number.to_string()),
    };
    asked
        .iter()
        .filter_map(|(name, wanted)| {
            let have = found.get(name).map_or("not a variable", String::as_str);
            (plain(have) != plain(wanted)).then(|| format!("{name}: asked for {wanted}, is {have}"))
        })
        .collect()
}

/// A number with the suffix that servers take: `64M` is 67108864.
fn bytes(value: &str) -> Option<u64> {
    let shift = match value.chars().last()? {
        'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        _ => return None,
    };
    value[..value.len() - 1].parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_was_silently_changed_is_found() {
        let asked = requested(&[
            "--max-connections=4096".into(),
            "--performance-schema=OFF".into(),
            "--skip-log-bin".into(),
        ]);
        let found = [("max_connections", "214"), ("performance_schema", "0")];
        let found = found.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        assert_eq!(differences(&asked, &found), ["max_connections: asked for 4096, is 214"]);
        let (asked, found) =
            (requested(&["--pool=64M".into()]), [("pool".to_string(), "67108864".to_string())]);
        assert!(differences(&asked, &found.into()).is_empty());
    }
}
