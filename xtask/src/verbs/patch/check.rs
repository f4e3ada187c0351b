//! What is wrong with patches, before anybody builds with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use xshell::{Shell, cmd};

use super::status::{self, Standing};
use super::{Queue, Tabled};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::patches::series::Patch;
use crate::process;
use crate::ui::{self, Table};

/// What is checked.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    releases: Tabled,
    /// Leave unchecked whether a build reads what patches change: no build need be in the cache.
    #[arg(long)]
    without_builds: bool,
}

/// What was found of a patch.
#[derive(Serialize)]
struct Row {
    product: String,
    release: String,
    patch: String,
    /// `good` or `wrong`.
    header: &'static str,
    /// `exactly`, `moved`, `already upstream` or `conflicts`.
    fits: &'static str,
    /// `yes`, `no`, or that it was not checked.
    read_by_a_build: &'static str,
    complaints: Vec<String>,
}

/// Prints what is wrong; fails where something is, or could not be checked.
pub fn run(args: &Args) -> Result<()> {
    let home = args.releases.which.home()?;
    let (mut rows, mut unbuilt) = (Vec::new(), Vec::new());
    for queue in args.releases.which.all()? {
        let builds = if args.without_builds { Builds::default() } else { Builds::of(&home, &queue)? };
        if builds.is_empty() && !queue.series.patches.is_empty() {
            unbuilt.push(format!("--product {} --release {}", queue.product.name, queue.release.version));
        }
        let standings = status::of(&home, &queue, &queue.series)?;
        for (patch, standing) in queue.series.patches.iter().zip(standings) {
            rows.push(row(&queue, patch, standing, &builds));
        }
    }
    print(&rows, args.releases.json)?;
    let wrong = rows.iter().map(|row| row.complaints.len() as u64).sum();
    let failed = |what: String, next: &str| Failure::new(Kind::VerificationFailed, what).next(next);
    if wrong > 0 {
        let what = format!("{} found", ui::counted(wrong, "complaint"));
        return Err(failed(what, "mend what is listed above").into());
    }
    if !args.without_builds && !unbuilt.is_empty() {
        let what = format!("no build is in the cache that would show what it reads: {}", unbuilt.join("; "));
        return Err(
            failed(what, "cargo xtask build makes one; --without-builds leaves this unchecked").into()
        );
    }
    Ok(())
}

fn row(queue: &Queue, patch: &Patch, standing: Standing, builds: &Builds) -> Row {
    let mut complaints = header(patch);
    let header = if complaints.is_empty() { "good" } else { "wrong" };
    let fits = match (standing.status, standing.details.is_empty()) {
        ("applies", true) => "exactly",
        ("applies", false) => "moved",
        (status, _) => status,
    };
    complaints.extend(standing.details);
    let (read_by_a_build, unread) = builds.read(patch);
    complaints.extend(unread.iter().map(|path| format!("{}: no build reads {path}", patch.name)));
    let (product, release) = (queue.product.name.clone(), queue.release.version.clone());
    Row { product, release, patch: patch.name.clone(), header, fits, read_by_a_build, complaints }
}

fn print(rows: &[Row], json: bool) -> Result<()> {
    if json {
        ui::print(&serde_json::to_string_pretty(rows)?);
        return Ok(());
    }
    let mut table = Table::new(&["product", "release", "patch", "header", "fits", "read by a build"]);
    for row in rows {
        let cells = [&row.product, &row.release, &row.patch].map(String::as_str);
        table.row(cells.into_iter().chain([row.header, row.fits, row.read_by_a_build]).map(String::from));
    }
    table.print();
    rows.iter().flat_map(|row| &row.complaints).for_each(|line| ui::say(&format!("  {line}")));
    Ok(())
}

/// Complaints about a patch's words, and hunks that change nothing.
fn header(patch: &Patch) -> Vec<String> {
    let file = patch.file.display();
    let mut all: Vec<String> =
        patch.complaints.iter().map(|(line, what)| format!("{file}:{line}: {what}")).collect();
    let hunks = patch.diff.files.iter().flat_map(|file| &file.hunks);
    let idle = hunks.filter(|hunk| hunk.reversed().old == hunk.old);
    all.extend(idle.map(|hunk| format!("{file}:{}: a hunk that changes nothing", hunk.line)));
    all
}

/// Build folders of a release in the cache, by which it is seen whether a patched file is one that is compiled.
#[derive(Default)]
struct Builds {
    /// What each build reads, as ninja knows it, and cmake.
    texts: Vec<String>,
}

impl Builds {
    fn of(home: &Home, queue: &Queue) -> Result<Self> {
        let mut texts = Vec::new();
        for folder in folders(home, &queue.release.version)? {
            let source = fs::read_link(folder.join("source")).unwrap_or_default();
            if !source.to_string_lossy().contains(&format!("/{}-", queue.label())) {
                continue;
            }
            let tree = folder.join("cmake");
            // Rules, and cmake's own files; then the headers that compilers said they read.
            texts.push(fs::read_to_string(tree.join("build.ninja")).unwrap_or_default());
            let shell = Shell::new()?;
            texts.push(process::output(cmd!(shell, "ninja -C {tree} -t deps")).unwrap_or_default());
        }
        Ok(Builds { texts })
    }

    fn is_empty(&self) -> bool {
        self.texts.iter().all(String::is_empty)
    }

    /// Whether builds read a patch's files, in words, and those that none reads.
    fn read(&self, patch: &Patch) -> (&'static str, Vec<String>) {
        if self.is_empty() {
            return ("not checked", Vec::new());
        }
        let mentions = |what: &str| self.texts.iter().any(|text| text.contains(&format!("source/{what}")));
        // Of a header it is known who reads it only once something of its folder was compiled.
        let compiled =
            |path: &str| path.rsplit_once('/').is_none_or(|(folder, _)| mentions(&format!("{folder}/")));
        let header = |path: &str| [".h", ".hpp", ".ic"].iter().any(|end| path.ends_with(end));
        let reads = |path: &str| mentions(path) || header(path) && !compiled(path);
        let unread: Vec<String> =
            patch.diff.files.iter().map(|file| file.path.clone()).filter(|path| !reads(path)).collect();
        (if unread.is_empty() { "yes" } else { "no" }, unread)
    }
}

fn folders(home: &Home, version: &str) -> Result<Vec<PathBuf>> {
    let ours = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        path.is_dir() && name.contains(&format!("-{version}-"))
    };
    let all = fs::read_dir(home.folder("builds")?)?.map(|entry| Ok(entry?.path()));
    let all = all.collect::<Result<Vec<_>>>()?;
    Ok(all.into_iter().filter(|path| ours(path)).collect())
}
