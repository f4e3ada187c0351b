//! What is wrong with patches, before anybody builds with them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use xshell::{Shell, cmd};

use super::{Queue, Which, status};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::patches::series::Patch;
use crate::process;
use crate::ui::{self, Table};

/// Prints what is wrong; fails where something is.
pub fn run(which: &Which) -> Result<()> {
    let home = which.home()?;
    let mut table = Table::new(&["product", "release", "patch", "header", "fits", "read by a build"]);
    let (mut wrong, mut unchecked) = (Vec::new(), false);
    for queue in which.all()? {
        let standings = status::of(&home, &queue, &queue.series)?;
        let builds = Builds::of(&home, &queue)?;
        for (patch, standing) in queue.series.patches.iter().zip(&standings) {
            let before = wrong.len();
            wrong.extend(header(patch));
            let header = if wrong.len() == before { "good" } else { "wrong" };
            let fits = match (standing.status, standing.details.is_empty()) {
                ("applies", true) => "exactly",
                ("applies", false) => "moved",
                (status, _) => status,
            };
            wrong.extend(standing.details.clone());
            let (read, unread) = builds.read(patch)?;
            unchecked |= builds.is_empty();
            wrong.extend(unread.iter().map(|path| format!("{}: no build reads {path}", patch.name)));
            let cells = [&queue.product.name, &queue.release.version, &patch.name];
            let more = [header, fits, read].map(String::from);
            table.row(cells.into_iter().cloned().chain(more));
        }
    }
    table.print();
    wrong.iter().for_each(|line| ui::say(&format!("  {line}")));
    if unchecked {
        ui::warn(
            "no build of some releases is in the cache: whether one reads what patches change was not checked",
        );
    }
    if wrong.is_empty() {
        return Ok(());
    }
    let what = format!("{} found", ui::counted(wrong.len() as u64, "complaint"));
    Err(Failure::new(Kind::VerificationFailed, what).next("mend what is listed above").into())
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
    fn read(&self, patch: &Patch) -> Result<(&'static str, Vec<String>)> {
        if self.is_empty() {
            return Ok(("not checked: no build in the cache", Vec::new()));
        }
        let mentions = |what: &str| self.texts.iter().any(|text| text.contains(&format!("source/{what}")));
        // Of a header it is known who reads it only once something of its folder was compiled.
        let compiled =
            |path: &str| path.rsplit_once('/').is_none_or(|(folder, _)| mentions(&format!("{folder}/")));
        let header = |path: &str| [".h", ".hpp", ".ic"].iter().any(|end| path.ends_with(end));
        let reads = |path: &str| mentions(path) || header(path) && !compiled(path);
        let unread: Vec<String> =
            patch.diff.files.iter().map(|file| file.path.clone()).filter(|path| !reads(path)).collect();
        Ok((if unread.is_empty() { "yes" } else { "no" }, unread))
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
