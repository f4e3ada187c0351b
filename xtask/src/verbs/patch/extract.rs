//! A few files of a release, with patches and without a whole tree.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Queue, Which};
use crate::failure::{Failure, Kind};
use crate::home::Home;

use crate::patches::selection::Selection;
use crate::patches::{self, series::Series};
use crate::stages::source::originals::Originals;
use crate::ui;

/// Write the files that patches touch, with these patches in them: what a patch does, without a whole tree.
#[derive(clap::Args)]
pub struct Args {
    /// Further files; a path that ends with `/` is a folder.
    paths: Vec<String>,
    /// The patches that are in them.
    #[arg(long, value_name = "PATCHES", default_value_t = Selection::ALL, allow_hyphen_values = true)]
    patches: Selection,
    /// The folder that is written; it must not be there.
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
    #[command(flatten)]
    which: Which,
}

/// Writes them.
pub fn run(args: &Args) -> Result<()> {
    if args.output.exists() {
        let what = format!("{} is there already", args.output.display());
        return Err(Failure::new(Kind::Usage, what).next("name another folder").into());
    }
    let queue = args.which.one()?;
    args.patches.check(&queue.series.names())?;
    let mut series = queue.series.clone();
    series.patches.retain(|patch| args.patches.takes(&patch.name));
    let paths: BTreeSet<String> = args.paths.iter().cloned().collect();
    files(&args.which.home()?, &queue, &series, &paths, &args.output)?;
    ui::step("wrote", &args.output.display().to_string());
    Ok(())
}

/// Writes the files that any patch of the release touches, and these, with the patches of `series` in them.
pub fn files(home: &Home, queue: &Queue, series: &Series, more: &BTreeSet<String>, to: &Path) -> Result<()> {
    let touched =
        queue.series.patches.iter().flat_map(|patch| &patch.diff.files).map(|file| file.path.clone());
    let paths: BTreeSet<String> = touched.chain(more.iter().cloned()).collect();
    let originals = Originals::take(home, &queue.label(), &queue.archive(home)?, &paths)?;
    copy(&originals.tree(), to)?;
    let report = home.log(&format!("patch-{}", queue.label()))?;
    patches::apply_all(series, to, &report)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| format!("cannot write {}", target.display()))?;
        }
    }
    Ok(())
}
