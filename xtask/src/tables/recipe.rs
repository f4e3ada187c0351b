//! A recipe: a library that is built here, for targets that have no package of it; one file of `xtask/recipes`.
//!
//! No recipe knows an architecture: where a build needs a word for one, the target's file has it.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::product::Release;
use crate::failure::{Failure, Kind, unknown};
use crate::home::repository;

/// What words in braces stand for.
pub type Words = BTreeMap<String, String>;

/// Words that are known only while a library is built: where it is installed to, and how many jobs may run.
pub const LATE: [&str; 2] = ["destdir", "jobs"];

/// One file of `xtask/recipes`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// The file's name without `.toml`; not in the file.
    #[serde(skip_deserializing)]
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Licence of the library, as SPDX has it.
    pub licence: String,
    /// The pinned source.
    pub source: Release,
    /// Debian packages that the host needs to build it.
    pub host_packages: Vec<String>,
    /// Commands, each a list of words, run in the unpacked source, in their order.
    pub steps: Vec<Vec<String>>,
    /// What must be there afterwards, by path in the sysroot.
    pub files: Vec<String>,
    /// Files that must name the version.
    pub says: Vec<Says>,
}

/// A text that must stand in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Says {
    /// Path in the sysroot.
    pub file: String,
    /// The text.
    pub text: String,
}

/// What a recipe asks for on one target; only [`LATE`] words are left.
#[derive(Clone, Debug, Serialize)]
pub struct Instructions {
    /// As in the recipe.
    pub steps: Vec<Vec<String>>,
    /// As in the recipe.
    pub files: Vec<String>,
    /// As in the recipe.
    pub says: Vec<Says>,
}

impl Recipe {
    /// Reads the recipe `name`.
    pub fn load(name: &str) -> Result<Self> {
        let mut recipe: Recipe = super::load(&repository().join("xtask/recipes"), "recipe", name)?;
        recipe.name = name.to_string();
        Ok(recipe)
    }

    /// The names of all recipes.
    #[cfg(test)]
    pub fn names() -> Result<Vec<String>> {
        super::names(&repository().join("xtask/recipes"))
    }

    /// Programs of the host that its steps start.
    pub fn programs(&self) -> impl Iterator<Item = &str> {
        self.steps
            .iter()
            .filter_map(|step| step.first())
            .map(String::as_str)
            .filter(|name| !name.contains('/'))
    }

    /// The recipe with the target's words.
    pub fn for_target(&self, words: &Words) -> Result<Instructions> {
        let mut all = words.clone();
        all.extend(LATE.map(|name| (name.to_string(), format!("{{{name}}}"))));
        let fill = |text: &String| self.fill(text, &all);
        let fill_all = |texts: &Vec<String>| texts.iter().map(fill).collect::<Result<Vec<String>>>();
        let says = |says: &Says| Ok(Says { file: fill(&says.file)?, text: says.text.clone() });
        Ok(Instructions {
            steps: self.steps.iter().map(fill_all).collect::<Result<_>>()?,
            files: fill_all(&self.files)?,
            says: self.says.iter().map(says).collect::<Result<_>>()?,
        })
    }

    fn fill(&self, text: &str, words: &Words) -> Result<String> {
        filled(text, words).map_err(|word| {
            let known: Vec<String> = words.keys().cloned().collect();
            let failure = unknown(&format!("word of the recipe {}", self.name), &word, &known);
            Failure::new(Kind::Usage, failure.what)
                .next(format!(
                    "give it in [sysroot.words] of the target, or mend xtask/recipes/{}.toml",
                    self.name
                ))
                .into()
        })
    }
}

/// Puts words in the place of their names in braces; the error is a name that is not known.
pub fn filled(text: &str, words: &Words) -> Result<String, String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((name, behind)) = after.split_once('}') else { break };
        result += before;
        result += words.get(name).ok_or(name)?;
        rest = behind;
    }
    Ok(result + rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recipe_can_be_read_pins_its_source_and_is_checked() {
        for name in Recipe::names().unwrap() {
            let recipe = Recipe::load(&name).unwrap();
            assert!(recipe.source.sha256.len() == 64 && recipe.source.size > 0, "{name}");
            assert!(recipe.source.locators.len() > 1, "{name} can be had from one place only");
            assert!(!recipe.steps.iter().any(Vec::is_empty) && !recipe.files.is_empty(), "{name}");
            assert!(!recipe.licence.is_empty() && !recipe.description.is_empty(), "{name}");
            // Something in the result tells the version: a text, or the number of the library itself.
            let numbered = |file: &String| file.rsplit_once(".so.").is_some_and(|(_, n)| n.contains('.'));
            assert!(!recipe.says.is_empty() || recipe.files.iter().any(numbered), "{name} tells no version");
        }
    }

    #[test]
    fn words_are_filled_in_and_an_unknown_one_is_answered_with_those_that_there_are() {
        let words = Words::from([("libdir".into(), "usr/lib/x".into()), ("host".into(), "x-linux".into())]);
        assert_eq!(filled("--libdir=/{libdir} {host}", &words).unwrap(), "--libdir=/usr/lib/x x-linux");
        let mut recipe = Recipe::load(&Recipe::names().unwrap()[0]).unwrap();
        recipe.steps = vec![vec!["make".into(), "{lib-dir}".into(), "DESTDIR={destdir}".into()]];
        let message = recipe.for_target(&words).unwrap_err().to_string();
        assert!(message.contains("lib-dir") && message.contains("libdir"), "{message}");
        recipe.steps[0][1] = "{libdir}".into();
        recipe.files.clear();
        recipe.says.clear();
        let steps = recipe.for_target(&words).unwrap().steps;
        assert_eq!(steps, [["make", "usr/lib/x", "DESTDIR={destdir}"]]);
        assert_eq!(recipe.programs().collect::<Vec<_>>(), ["make"]);
    }
}
