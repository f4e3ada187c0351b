//! The patched tree for people, and patches that come and go.

use std::process::Command;

use anyhow::Result;

use super::{Queue, Which, refresh};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::patches::tree::EditTree;
use crate::patches::write::{self, Entry};
use crate::{process, ui};

/// Make a patch of what is changed in the edited tree and not committed.
#[derive(clap::Args)]
pub struct New {
    /// What it does, in words: its file's name, and its description unless one is given.
    #[arg(value_name = "WHAT-IT-DOES")]
    name: String,
    /// What it does, then what goes wrong without it.
    #[arg(long)]
    description: Option<String>,
    /// Targets that it is for, separated by commas; left out: all.
    #[arg(long)]
    targets: Option<String>,
    #[command(flatten)]
    which: Which,
}

/// Take a patch out of a series, and its file away.
#[derive(clap::Args)]
pub struct Drop {
    /// Its name or number.
    patch: String,
    #[command(flatten)]
    which: Which,
}

/// Says where the tree is; makes it where there is none.
pub fn run(which: &Which) -> Result<()> {
    let (home, queue) = (which.home()?, which.one()?);
    let tree = EditTree::of(&home, &queue.label())?;
    tree.open(&queue.label(), &queue.archive(&home)?, &queue.series, &home)?;
    ui::step("edit", &format!("{}: commits are patches; then cargo xtask patch refresh", queue.label()));
    ui::print(&tree.folder().display().to_string());
    Ok(())
}

/// The tree of a queue, which must have been made.
pub fn opened(home: &Home, queue: &Queue) -> Result<EditTree> {
    let tree = EditTree::of(home, &queue.label())?;
    if tree.exists() {
        return Ok(tree);
    }
    let what = format!("there is no edited tree of {}", queue.label());
    let next = format!("cargo xtask patch edit --product {}", queue.product.name);
    Err(Failure::new(Kind::Usage, what).next(next).into())
}

/// Makes the patch, then writes all of them.
pub fn new(args: &New) -> Result<()> {
    let (home, queue) = (args.which.home()?, args.which.one()?);
    let words = args.name.trim_end_matches(".patch").replace('-', " ");
    let subject = args.description.clone().unwrap_or(words).replace('\n', "\n ");
    let targets = args.targets.as_ref().map(|names| format!("\nX-Targets: {names}")).unwrap_or_default();
    let today = refresh::today();
    let author = author();
    let message =
        format!("Description: {subject}\nAuthor: {author}\nForwarded: no\nLast-Update: {today}{targets}\n");
    opened(&home, &queue)?.commit_all(&message)?;
    refresh::run(&args.which)
}

/// Whom git takes a person for: `Name <address>`.
fn author() -> String {
    let mut git = Command::new("git");
    git.args(["var", "GIT_AUTHOR_IDENT"]);
    let said = process::output(git).unwrap_or_default();
    said.split_once('>').map_or("The portbench authors".into(), |(who, _)| format!("{who}>"))
}

/// Takes it out.
pub fn drop(args: &Drop) -> Result<()> {
    let (home, queue) = (args.which.home()?, args.which.one()?);
    let gone = queue.patch(&args.patch)?;
    let tree = EditTree::of(&home, &queue.label())?;
    if tree.exists() {
        tree.expect_nothing_unwritten()?;
    }
    let rest = queue.series.patches.iter().filter(|patch| patch.name != gone.name);
    let entries: Vec<Entry> = rest.map(Entry::kept).collect();
    write::series(&queue.series.folder, &entries)?;
    ui::step("drop", &gone.file.display().to_string());
    Ok(())
}
