//! A series carried to another release.

use anyhow::Result;

use super::{Queue, Tabled, status};
use crate::failure::{Failure, Kind};
use crate::patches::series::Series;
use crate::patches::write::{self, Entry};
use crate::ui;

/// Carry a release's series to another release of the product, and say what does not fit there.
#[derive(clap::Args)]
pub struct Args {
    /// The release that gets them.
    #[arg(long, value_name = "RELEASE")]
    to: String,
    /// Write the series of the patches that fit though others do not.
    #[arg(long)]
    partial: bool,
    #[command(flatten)]
    from: Tabled,
}

/// Writes a series whose patches are the other release's files.
pub fn run(args: &Args) -> Result<()> {
    let (home, from) = (args.from.which.home()?, args.from.which.one()?);
    let to = Queue::of(&from.product, from.product.release(Some(&args.to))?)?;
    if from.release.version == to.release.version {
        return Err(Failure::new(Kind::Usage, "a series is carried to another release")
            .next("name it with --to")
            .into());
    }
    let missing = |name: &&String| !to.series.names().contains(name);
    let new: Vec<String> = from.series.names().iter().filter(missing).cloned().collect();
    // What is there already stands first, as it will.
    let mut series = Series { folder: to.series.folder.clone(), patches: to.series.patches.clone() };
    series.patches.extend(from.series.patches.iter().filter(|patch| new.contains(&patch.name)).cloned());
    let standings = status::of(&home, &to, &series)?;
    status::print(&standings, args.from.json)?;
    let fits = |name: &String| standings.iter().any(|one| one.patch == *name && one.status == "applies");
    let conflicts = standings.iter().filter(|one| one.status == "conflicts").count();
    if conflicts > 0 && !args.partial {
        let what = format!("{conflicts} of {} do not fit {}; nothing was written", new.len(), to.label());
        let next = "cargo xtask patch port --partial, then patch edit, to write them anew for that release";
        return Err(Failure::new(Kind::VerificationFailed, what).next(next).into());
    }
    let mut entries: Vec<Entry> = to.series.patches.iter().map(Entry::kept).collect();
    for patch in from.series.patches.iter().filter(|patch| new.contains(&patch.name) && fits(&patch.name)) {
        let moved = standings.iter().any(|one| one.patch == patch.name && !one.details.is_empty());
        let how = if moved { "at other line numbers" } else { "at the same lines" };
        let entry = match &patch.shared {
            Some(_) => Entry::kept(patch).entry,
            None => format!("../{}/{}", from.release.version, patch.name),
        };
        entries.push(Entry { entry, reason: Some(format!("applies unchanged, {how}")), text: None });
    }
    let added = entries.len() - to.series.patches.len();
    if added > 0 {
        write::series(&to.series.folder, &entries)?;
    }
    ui::step("port", &format!("{} to {}", ui::counted(added as u64, "patch"), to.label()));
    Ok(())
}
