//! Versions of symbols, as `GLIBC_2.34`: compared as numbers, so that 2.4 is older than 2.34.

/// The number behind `prefix`; `None` where no number follows, as in `GLIBC_PRIVATE`.
fn number(prefix: &str, version: &str) -> Option<Vec<u32>> {
    version.strip_prefix(prefix)?.split('.').map(|part| part.parse().ok()).collect()
}

/// The highest of some versions that begin with `prefix`, without it.
pub fn highest<'a>(prefix: &str, versions: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let numbered = versions.into_iter().filter_map(|version| Some((number(prefix, version)?, version)));
    let (_, version) = numbered.max()?;
    Some(version[prefix.len()..].to_string())
}

/// What stands before the number, `_` included: `GLIBC_` of `GLIBC_2.34`.
pub fn prefix(version: &str) -> &str {
    version.rfind('_').map_or("", |end| &version[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        let versions = ["GLIBC_2.4", "GLIBC_2.34", "GLIBC_2.9", "GLIBC_2.3.4"];
        assert_eq!(highest("GLIBC_", versions).as_deref(), Some("2.34"));
    }

    #[test]
    fn names_that_are_no_numbers_do_not_count() {
        assert_eq!(highest("GLIBC_", ["GLIBC_PRIVATE", "GLIBC_ABI_DT_RELR", "GLIBCXX_3.4.30"]), None);
    }

    #[test]
    fn the_prefix_ends_before_the_number() {
        assert_eq!(prefix("GLIBCXX_3.4.30"), "GLIBCXX_");
        assert_eq!(prefix("odd"), "");
    }
}
