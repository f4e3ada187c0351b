//! The patch queue: what a release's patches say, and how they come into its tree.
//!
//! Nothing here calls git or patch(1): no outer repository, no setting of anybody's and no fuzz decides what a patch
//! does. A series is worked out in memory first; only when all of it fits is a file written.

pub mod apply;
pub mod diff;
pub mod header;
pub mod overlay;
pub mod selection;
pub mod series;
pub mod tree;
pub mod write;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::failure::{Failure, Kind};
use crate::ui;
use apply::Moved;
use overlay::{Outcome, Overlay, Problem};
use series::Series;

/// Applies a series to a tree: all of it, or the tree stays as it is. `report`: where a patch that does not fit is
/// told in full.
pub fn apply_all(series: &Series, tree: &Path, report: &Path) -> Result<()> {
    let mut overlay = Overlay::of(tree);
    for patch in &series.patches {
        match overlay.apply(&patch.diff)? {
            Outcome::Applied(moved) => {
                moved.iter().for_each(|moved| ui::warn(&told_moved(&patch.name, moved)))
            }
            Outcome::Already => {
                let what = format!("{}: the release has all of it already", patch.file.display());
                let next = format!("cargo xtask patch drop {}", patch.name);
                return Err(Failure::new(Kind::StageFailed, what).next(next).into());
            }
            Outcome::Conflicts(problems) => {
                let told = told(&patch.name, &problems);
                let text =
                    format!("{}\n{}", told.join("\n"), fs::read_to_string(&patch.file).unwrap_or_default());
                fs::write(report, text).with_context(|| format!("cannot write {}", report.display()))?;
                let what = format!("{} does not apply:\n  {}", patch.file.display(), told.join("\n  "));
                return Err(Failure::new(Kind::StageFailed, what)
                    .log(report)
                    .next("cargo xtask patch status; then mend the patch, or take it out of the series")
                    .into());
            }
        }
    }
    overlay.write()
}

/// A hunk that has moved, in words.
pub fn told_moved(patch: &str, moved: &Moved) -> String {
    let function =
        if moved.function.is_empty() { String::new() } else { format!(", in `{}`", moved.function) };
    format!("{patch}: {}: a hunk for line {} fits at line {}{function}", moved.path, moved.from, moved.to)
}

/// What does not fit, a line each.
pub fn told(patch: &str, problems: &[Problem]) -> Vec<String> {
    let one = |problem: &Problem| match problem.patch_line {
        0 => format!("{patch}: {}: {}", problem.path, problem.why),
        line => format!("{patch}:{line}: {}: {}", problem.path, problem.why),
    };
    problems.iter().map(one).collect()
}
