//! A bundle, put on a machine: only the files that are missing there or differ, each verified where it arrived.
//!
//! A bundle's folder is named by its hash. Files arrive in a folder of their own and are renamed into place, so that
//! two who push the same bundle at a time do not disturb each other, and a push that breaks off leaves nothing half
//! done in place. What it leaves beside, where even its shell was lost, the next push removes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use super::master::{Master, Ran, SCRIPT};
use super::preflight::full;
use crate::failure::{Failure, Kind};
use crate::stage::hex;
use crate::stages::bundle::{MANIFEST, Manifest};
use crate::tables::machines::SshMachine;
use crate::{interrupt, process, ui};

/// How long a push may take: hours for a slow line, not for ever.
const PUSHED: Duration = Duration::from_secs(4 * 3600);

/// `$1`: the bundle's folder. Reads lines as `sha256sum --check` does, prints those whose file is right, and the free
/// KiB.
const COMPARE: &str = r#"
umask 077
mkdir -p -- "$1" && cd -- "$1" || exit 1
sha256sum -c - 2>/dev/null
df -Pk . | tail -n 1 | awk '{print "free " $4}'
"#;

/// `$1`: the bundle's folder. Reads an archive.
const RECEIVE: &str = r#"
LC_ALL=C; export LC_ALL
umask 077
cd -- "$1" || exit 1
# What is so old was left by a push whose machine or link died.
find .. -maxdepth 1 -name 'push-*' -mmin +240 -exec rm -rf {} +
new=../push-$$-$(date +%s)
mkdir -- "$new" || exit 1
trap 'rm -rf "$new"' EXIT
trap 'exit 1' HUP INT TERM PIPE
tar -xf - -C "$new" || exit 1
(cd "$new" && find . -type f) | while IFS= read -r file; do
  mkdir -p -- "${file%/*}" && mv -f -- "$new/$file" "$file" || exit 1
done
"#;

/// Brings the bundle in `copy`, a folder of this host, to `root` on the machine.
pub fn push(
    master: &Master,
    machine: &SshMachine,
    manifest: &Manifest,
    copy: &Path,
    root: &str,
) -> Result<()> {
    let mut files = manifest.files.clone();
    let own = fs::read(copy.join(MANIFEST)).with_context(|| format!("{} has no manifest", copy.display()))?;
    files.insert(MANIFEST.into(), hex(&Sha256::digest(&own)));
    let (missing, free_bytes) = compare(master, machine, &files, root)?;
    if missing.is_empty() {
        return Ok(());
    }
    let mut bytes = 0;
    for file in &missing {
        bytes += fs::metadata(copy.join(file))?.len();
    }
    if free_bytes < bytes {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let what = format!("the bundle needs {} MiB, {} MiB are free", mib(bytes), free_bytes >> 20);
        remove_if_empty(master, root)?;
        return Err(full(machine, &what).into());
    }
    let what = format!(
        "{} of {} to ssh:{}, {} MiB",
        missing.len(),
        ui::counted(files.len() as u64, "file"),
        machine.name,
        bytes >> 20
    );
    ui::step("push", &what);
    let ran = master.run(RECEIVE, &[root], PUSHED, |to| send(copy, &missing, to))?;
    if !ran.success {
        remove_if_empty(master, root)?;
        return Err(failed(machine, &ran).into());
    }
    let (different, _) = compare(master, machine, &files, root)?;
    if different.is_empty() {
        return Ok(());
    }
    let what = format!("ssh:{}: what arrived is not what was sent: {}", machine.name, different.join(", "));
    Err(Failure::new(Kind::VerificationFailed, what)
        .next("run the same command again; if it is so again, look at that machine's disk and memory")
        .into())
}

/// The files that are not there or differ, and the free bytes.
fn compare(
    master: &Master,
    machine: &SshMachine,
    files: &BTreeMap<String, String>,
    root: &str,
) -> Result<(Vec<String>, u64)> {
    let list: String = files.iter().map(|(path, sha256)| format!("{sha256}  {path}\n")).collect();
    let ran = master.run(COMPARE, &[root], SCRIPT * 5, |to| Ok(to.write_all(list.as_bytes())?))?;
    let free =
        ran.stdout.lines().rev().find_map(|line| line.strip_prefix("free ")?.trim().parse::<u64>().ok());
    let Some(free_kib) = free.filter(|_| ran.success) else { return Err(failed(machine, &ran).into()) };
    let right: Vec<&str> = ran.stdout.lines().filter_map(|line| line.strip_suffix(": OK")).collect();
    let missing = files.keys().filter(|path| !right.contains(&path.as_str())).cloned().collect();
    Ok((missing, free_kib << 10))
}

fn send(copy: &Path, files: &[String], to: &mut dyn Write) -> Result<()> {
    let mut archive = tar::Builder::new(to);
    archive.mode(tar::HeaderMode::Deterministic);
    for path in files {
        interrupt::check()?;
        let mut file = File::open(copy.join(path)).with_context(|| format!("cannot read {path}"))?;
        archive.append_file(path, &mut file)?;
    }
    Ok(archive.into_inner()?.flush()?)
}

/// A bundle of which nothing arrived leaves no folder.
fn remove_if_empty(master: &Master, root: &str) -> Result<()> {
    master.run("rmdir -- \"$1\" 2>/dev/null; true", &[root], SCRIPT, |_| Ok(()))?;
    Ok(())
}

fn failed(machine: &SshMachine, ran: &Ran) -> Failure {
    let said = ran.stderr.trim();
    if said.contains("No space left on device") || said.contains("Disk quota exceeded") {
        return full(machine, "the bundle did not fit; what had arrived was removed");
    }
    let what =
        format!("ssh:{}: the bundle could not be put there\n{}", machine.name, process::indented(said));
    Failure::new(Kind::StageFailed, what)
        .next("mend what the machine says above, then run the same command again")
}
