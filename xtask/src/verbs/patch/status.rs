//! Whether each patch fits its release.

use std::collections::BTreeSet;

use anyhow::Result;
use serde::Serialize;

use super::{Queue, Tabled};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::patches::overlay::{Outcome, Overlay};
use crate::patches::series::Series;
use crate::patches::{told, told_moved};
use crate::stages::source::originals::Originals;
use crate::ui::{self, Table};

/// How a patch stands to a release.
#[derive(Clone, Debug, Serialize)]
pub struct Standing {
    /// The product.
    pub product: String,
    /// The release.
    pub release: String,
    /// The patch's name.
    pub patch: String,
    /// `applies`, `already upstream` or `conflicts`; `no patches` of a release without any.
    pub status: &'static str,
    /// What must be said of it, a line each: hunks that moved, or do not fit.
    pub details: Vec<String>,
}

/// The status of a release without patches, which says that it was looked at.
const NONE: &str = "no patches";

impl Standing {
    fn of(queue: &Queue, patch: &str, status: &'static str, details: Vec<String>) -> Self {
        Standing {
            product: queue.product.name.clone(),
            release: queue.release.version.clone(),
            patch: patch.to_string(),
            status,
            details,
        }
    }
}

/// Prints a row a patch; fails where one does not apply.
pub fn run(args: &Tabled) -> Result<()> {
    let home = args.which.home()?;
    let mut all = Vec::new();
    for queue in args.which.all()? {
        let standings = of(&home, &queue, &queue.series)?;
        if standings.is_empty() {
            all.push(Standing::of(&queue, "-", NONE, Vec::new()));
        }
        all.extend(standings);
    }
    print(&all, args.json)?;
    let bad = all.iter().filter(|standing| !["applies", NONE].contains(&standing.status)).count() as u64;
    if bad == 0 {
        return Ok(());
    }
    let what =
        format!("{} not apply", if bad == 1 { "1 patch does".into() } else { format!("{bad} patches do") });
    let next = "cargo xtask patch edit --product NAME, mend it there, then cargo xtask patch refresh";
    Err(Failure::new(Kind::VerificationFailed, what).next(next).into())
}

/// The rows, and under them what must be said.
pub fn print(all: &[Standing], json: bool) -> Result<()> {
    if json {
        ui::print(&serde_json::to_string_pretty(all)?);
        return Ok(());
    }
    let mut table = Table::new(&["product", "release", "patch", "status"]);
    for standing in all {
        let status = standing.status.to_string();
        table.row([standing.product.clone(), standing.release.clone(), standing.patch.clone(), status]);
    }
    table.print();
    all.iter().flat_map(|standing| &standing.details).for_each(|line| ui::say(&format!("  {line}")));
    Ok(())
}

/// How each patch of `series` stands to a release, one over the other; the next goes without one that does not fit.
pub fn of(home: &Home, queue: &Queue, series: &Series) -> Result<Vec<Standing>> {
    if series.patches.is_empty() {
        return Ok(Vec::new());
    }
    let files = series.patches.iter().flat_map(|patch| &patch.diff.files);
    let paths: BTreeSet<String> = files.map(|file| file.path.clone()).collect();
    let originals = Originals::take(home, &queue.label(), &queue.archive(home)?, &paths)?;
    let mut overlay = Overlay::of(&originals.tree());
    let mut all = Vec::new();
    for patch in &series.patches {
        let (status, details) = match overlay.apply(&patch.diff)? {
            Outcome::Applied(moved) => {
                ("applies", moved.iter().map(|moved| told_moved(&patch.name, moved)).collect())
            }
            Outcome::Already => ("already upstream", Vec::new()),
            Outcome::Conflicts(problems) => {
                let mut details = told(&patch.name, &problems);
                for problem in problems.iter().filter(|problem| problem.why.contains("is not there")) {
                    let near = originals.namesakes(&problem.path)?;
                    details.extend(near.iter().map(|path| format!("{}: now {path}?", problem.path)));
                }
                ("conflicts", details)
            }
        };
        all.push(Standing::of(queue, &patch.name, status, details));
    }
    Ok(all)
}
