//! Which patches of a series are taken: `all`, `none`, or some by name or number.

use std::fmt;
use std::str::FromStr;

use crate::failure::{Failure, unknown};

/// Some patches of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// Whether those that are not named are taken.
    all: bool,
    /// Names or numbers, and whether they are taken.
    words: Vec<(bool, String)>,
}

impl Selection {
    /// Every patch.
    pub const ALL: Selection = Selection { all: true, words: Vec::new() };

    /// Whether a patch of this name is taken; later words win.
    pub fn takes(&self, name: &str) -> bool {
        let word = self.words.iter().rev().find(|(_, word)| is(word, name));
        word.map_or(self.all, |(takes, _)| *takes)
    }

    /// Refuses words that no patch of `names` goes by.
    pub fn check(&self, names: &[String]) -> Result<(), Failure> {
        let stray = self.words.iter().find(|(_, word)| !names.iter().any(|name| is(word, name)));
        stray.map_or(Ok(()), |(_, word)| Err(unknown("patch", word, names)))
    }
}

/// Whether a word is a patch's file name, without its end if one likes, or its number.
pub fn is(word: &str, name: &str) -> bool {
    let stem = name.strip_suffix(".patch").unwrap_or(name);
    word == name || word == stem || stem.split_once('-').is_some_and(|(number, _)| number == word)
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(',').map(str::trim).filter(|word| !word.is_empty()).peekable();
        let Some(first) = words.peek().copied() else {
            return Err("name `all`, `none`, or patches by number or name, separated by commas".into());
        };
        // Patches that are only left out are left out of all.
        let all = first == "all" || first.starts_with('-');
        if first == "all" || first == "none" {
            words.next();
        }
        let word = |word: &str| match word.strip_prefix('-') {
            Some(word) => (false, word.to_string()),
            None => (true, word.to_string()),
        };
        Ok(Selection { all, words: words.map(word).collect() })
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = vec![if self.all { "all" } else { "none" }.to_string()];
        parts.extend(
            self.words.iter().map(|(takes, word)| format!("{}{word}", if *takes { "" } else { "-" })),
        );
        if parts.len() > 1 && !self.all {
            parts.remove(0);
        }
        f.write_str(&parts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_choose_by_number_and_by_name() {
        let taken = |text: &str| {
            let selection: Selection = text.parse().unwrap();
            ["0001-a.patch", "0002-b-c.patch", "0010-d.patch"].map(|name| selection.takes(name))
        };
        assert_eq!(taken("all"), [true, true, true]);
        assert_eq!(taken("none"), [false, false, false]);
        assert_eq!(taken("0002, 0010-d"), [false, true, true]);
        assert_eq!(taken("all,-0002-b-c.patch"), [true, false, true]);
        assert_eq!(taken("-0001"), [false, true, true]);
        for text in ["all", "none", "0001", "all,-0002", "0001,0002"] {
            assert_eq!(text.parse::<Selection>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_word_that_names_nothing_is_refused_with_the_nearest() {
        let names = ["0001-mend-it.patch".to_string()];
        let selection: Selection = "0001-mend-is".parse().unwrap();
        let message = selection.check(&names).unwrap_err().to_string();
        assert!(message.contains("did you mean 0001-mend-it.patch"), "{message}");
        assert!("".parse::<Selection>().is_err());
    }
}
