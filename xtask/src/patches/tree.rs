//! The patched tree as a git repository for people: the release is its first commit, each patch is one more.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::overlay::{Outcome, Overlay};
use super::series::{Patch, Series};
use super::told;
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stage::remove;
use crate::stages::fetch::Archive;
use crate::stages::source;
use crate::{process, ui};

/// The tag of the release as it is shipped.
const RELEASE: &str = "release";
/// Names the patch that a commit is, in its message.
const PATCH_NAME: &str = "Patch-Name:";
/// What is known of a tree, in its `.git`.
const STATE: &str = "portbench.json";

/// A tree that a person edits.
pub struct EditTree {
    folder: PathBuf,
}

/// What a tree was last made of, or written to.
#[derive(Serialize, Deserialize)]
struct State {
    /// Names and hashes of the patches.
    patches: Vec<(String, String)>,
    /// The commit that is all of them.
    head: String,
    /// Patches that are no commit, because they do not fit or the release has them: their files stay.
    left_out: Vec<String>,
}

/// A commit above the release.
pub struct Commit {
    /// The patch that it is; `None`: a new one.
    pub name: Option<String>,
    /// Its message without that name.
    pub message: String,
    /// Its author, `Name <address>`.
    pub author: String,
    /// What it changes, as a unified diff without git's own lines.
    pub diff: String,
}

impl EditTree {
    /// Where the tree of a release is, or would be: in the cache, or where `$PORTBENCH_EDITS` says.
    pub fn of(home: &Home, label: &str) -> Result<Self> {
        let elsewhere =
            std::env::var_os("PORTBENCH_EDITS").filter(|value| !value.is_empty()).map(PathBuf::from);
        let folder = match elsewhere {
            Some(folder) => folder,
            None => home.folder("edits")?,
        };
        Ok(EditTree { folder: folder.join(label) })
    }

    /// Its folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether it has been made.
    pub fn exists(&self) -> bool {
        self.folder.join(".git").is_dir()
    }

    /// Makes it, or finds it as it was left. What a person did in it and has not written to patches stays.
    pub fn open(&self, label: &str, archive: &Archive, series: &Series, home: &Home) -> Result<()> {
        if self.exists() {
            if self.state()?.patches == identity(series) {
                return Ok(());
            }
            self.expect_nothing_unwritten()?;
        } else if self.folder.exists() {
            let what = format!("{} is there, and is no tree that portbench made", self.folder.display());
            return Err(Failure::new(Kind::Usage, what).next("move it away").into());
        }
        let work = self.folder.with_added_extension("partial");
        remove(&work)?;
        home.need_space(archive.size() * 10, &format!("the source of {label} as a git repository"))?;
        fs::create_dir_all(work.parent().unwrap_or(&work))?;
        ui::step("unpack", label);
        source::unpack_into(archive.path(), &work)?;
        ui::step("commit", &format!("{label}, then {}", ui::counted(series.patches.len() as u64, "patch")));
        let making = EditTree { folder: work.clone() };
        making.fill(label, series)?;
        remove(&self.folder)?;
        fs::rename(&work, &self.folder).with_context(|| format!("cannot place {}", self.folder.display()))
    }

    fn fill(&self, label: &str, series: &Series) -> Result<()> {
        self.git(&["init", "-q", "-b", "portbench"])?;
        // Releases ignore some of the files that they ship.
        self.git(&["add", "-A", "-f"])?;
        self.commit(&format!("{label} as released\n"), None)?;
        self.git(&["tag", RELEASE])?;
        let mut left_out = Vec::new();
        for patch in &series.patches {
            let mut overlay = Overlay::of(&self.folder);
            match overlay.apply(&patch.diff)? {
                Outcome::Applied(_) => overlay.write()?,
                Outcome::Already => {
                    ui::warn(&format!("{}: the release has all of it already; left out", patch.name));
                    left_out.push(patch.name.clone());
                    continue;
                }
                Outcome::Conflicts(problems) => {
                    // The rest of the queue may still be mended; what is left out is told.
                    told(&patch.name, &problems).iter().for_each(|line| ui::warn(line));
                    ui::warn(&format!("{} is left out; its file stays", patch.name));
                    left_out.push(patch.name.clone());
                    continue;
                }
            }
            let paths: Vec<&str> = overlay.paths().collect();
            self.git(&[&["add", "-A", "-f", "--"], paths.as_slice()].concat())?;
            let message = format!("{}\n\n{PATCH_NAME} {}\n", header_lines(patch), patch.name);
            self.commit(&message, patch.header.author.as_deref())?;
        }
        self.written(series, left_out)
    }

    /// Commits what is staged.
    fn commit(&self, message: &str, author: Option<&str>) -> Result<()> {
        let mut command = self.command(&["commit", "-q", "--no-verify", "--cleanup=verbatim", "-m", message]);
        // A commit needs an address.
        if let Some(author) = author {
            let author = if author.contains('<') { author.to_string() } else { format!("{author} <>") };
            command.arg(format!("--author={author}"));
        }
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "portbench")
                .env(format!("GIT_{role}_EMAIL"), "portbench@localhost");
        }
        self.run(command).map(drop)
    }

    /// Commits all that a person has changed and not committed, as their own.
    pub fn commit_all(&self, message: &str) -> Result<()> {
        if self.git(&["status", "--porcelain"])?.trim().is_empty() {
            let what = format!("nothing is changed in {}", self.folder.display());
            return Err(Failure::new(Kind::Usage, what).next("change it there first; do not commit").into());
        }
        self.git(&["add", "-A"])?;
        self.run(self.command(&["commit", "-q", "--cleanup=verbatim", "-m", message])).map(drop)
    }

    /// The commits above the release, in order. Fails where something is not committed.
    pub fn commits(&self) -> Result<Vec<Commit>> {
        let unsaved = self.git(&["status", "--porcelain"])?;
        if !unsaved.trim().is_empty() {
            let what = format!(
                "{} holds changes that are not committed:\n{}",
                self.folder.display(),
                unsaved.trim_end()
            );
            let next = "commit them to the patch they belong to (git commit --amend, --fixup), or: cargo xtask patch new NAME";
            return Err(Failure::new(Kind::Usage, what).next(next).into());
        }
        let all = self.git(&["rev-list", "--reverse", "--no-merges", &format!("{RELEASE}..HEAD")])?;
        let merges = self.git(&["rev-list", "--merges", &format!("{RELEASE}..HEAD")])?;
        if !merges.trim().is_empty() {
            let what =
                format!("{} holds merges: a series is one commit after the other", self.folder.display());
            return Err(Failure::new(Kind::Usage, what).next("git rebase release").into());
        }
        all.lines().map(|id| self.read(id)).collect()
    }

    fn read(&self, id: &str) -> Result<Commit> {
        let text = self.git(&["log", "-1", "--format=%an <%ae>%n%B", id])?;
        let (author, message) = text.split_once('\n').unwrap_or((&text, ""));
        let name = message.lines().find_map(|line| line.strip_prefix(PATCH_NAME));
        let rest: Vec<&str> = message.lines().filter(|line| !line.starts_with(PATCH_NAME)).collect();
        let diff = self.git(&[
            "diff-tree",
            "--no-commit-id",
            "-p",
            "--no-renames",
            "--no-color",
            "--no-ext-diff",
            "--no-textconv",
            "--src-prefix=a/",
            "--dst-prefix=b/",
            id,
        ])?;
        Ok(Commit {
            name: name.map(|name| name.trim().to_string()),
            message: rest.join("\n").trim().to_string(),
            author: author.to_string(),
            diff: plain(&diff).map_err(|what| {
                Failure::new(Kind::Usage, format!("commit {id}: {what}")).next("change text alone in it")
            })?,
        })
    }

    /// Refuses where there is work that no patch has.
    pub fn expect_nothing_unwritten(&self) -> Result<()> {
        let head = self.git(&["rev-parse", "HEAD"])?;
        // Also files that the release's own list ignores: they are a person's.
        let clean = self.git(&["status", "--porcelain", "--ignored"])?.trim().is_empty();
        if clean && head.trim() == self.state()?.head {
            return Ok(());
        }
        let what = format!("{} holds work that is in no patch", self.folder.display());
        let next = "cargo xtask patch refresh writes it; or remove the folder, if it is not wanted";
        Err(Failure::new(Kind::Usage, what).next(next).into())
    }

    /// Remembers that the patches are what the commits are.
    pub fn written(&self, series: &Series, left_out: Vec<String>) -> Result<()> {
        let head = self.git(&["rev-parse", "HEAD"])?.trim().to_string();
        let state = serde_json::to_string_pretty(&State { patches: identity(series), head, left_out })?;
        let file = self.folder.join(".git").join(STATE);
        fs::write(&file, state).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The patches that are no commit; refuses where the series is another one than the tree was made of.
    pub fn left_out(&self, series: &Series) -> Result<Vec<String>> {
        let state = self.state()?;
        if state.patches == identity(series) {
            return Ok(state.left_out);
        }
        let what =
            format!("{} has changed since {} was made of it", series.folder.display(), self.folder.display());
        let next = "keep what you need of it (git format-patch release), move the tree away, then patch edit";
        Err(Failure::new(Kind::Usage, what).next(next).into())
    }

    fn state(&self) -> Result<State> {
        let file = self.folder.join(".git").join(STATE);
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} holds something else", file.display()))
    }

    fn git(&self, arguments: &[&str]) -> Result<String> {
        self.run(self.command(arguments))
    }

    fn run(&self, command: Command) -> Result<String> {
        process::output(command)
    }

    /// git on this tree and no other, whatever repository it lies in.
    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.folder).args(arguments);
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX"] {
            command.env_remove(name);
        }
        command.env("GIT_CEILING_DIRECTORIES", self.folder.parent().unwrap_or(&self.folder));
        command
            .env("GIT_CONFIG_COUNT", "1")
            .env("GIT_CONFIG_KEY_0", "core.autocrlf")
            .env("GIT_CONFIG_VALUE_0", "false");
        command
    }
}

fn identity(series: &Series) -> Vec<(String, String)> {
    series.patches.iter().map(|patch| (patch.name.clone(), patch.sha256.clone())).collect()
}

/// A patch's header without the line that ends it.
fn header_lines(patch: &Patch) -> String {
    let lines = patch.diff.header.lines().take_while(|line| !line.starts_with("---"));
    lines.collect::<Vec<_>>().join("\n").trim_end().to_string()
}

/// A diff without git's own lines, which say nothing that is needed to apply it.
fn plain(diff: &str) -> Result<String, String> {
    if diff.contains(char::REPLACEMENT_CHARACTER) {
        return Err("it changes lines that are no UTF-8: write that patch by hand".into());
    }
    let mut text = String::new();
    let mut in_hunk = false;
    for line in diff.lines() {
        if line.starts_with("diff --git ") {
            in_hunk = false;
        } else if line.starts_with("@@ ") {
            in_hunk = true;
        }
        if in_hunk || line.starts_with("--- ") || line.starts_with("+++ ") {
            text += &format!("{line}\n");
        } else if line.starts_with("old mode") || line.starts_with("new mode") {
            return Err("it changes a file's mode, which a patch does not hold".into());
        } else if line.starts_with("Binary files") {
            return Err("it changes a file that is no text".into());
        }
    }
    Ok(text)
}
