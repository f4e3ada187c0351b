//! `fetch`: brings a release's archive into the cache.

use anyhow::Result;

use super::common::Which;
use crate::stages::build::Options;
use crate::stages::fetch;
use crate::ui;

/// Download a pinned release, resumable, verified by size and SHA-256.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask fetch --product mariadb\n  cargo xtask fetch --verify   hash what is in the cache once more"
)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Hash the cached file again.
    #[arg(long)]
    verify: bool,
}

/// Fetches it and says where it is.
pub fn run(args: Args) -> Result<()> {
    let archive = args.which.pipeline(Options::default())?.archive()?;
    if args.verify {
        fetch::verify(&archive)?;
    }
    let how = if args.verify {
        "verified again"
    } else if archive.reused() {
        "in the cache"
    } else {
        "downloaded"
    };
    ui::step("fetch", &format!("{how}: {} ({} bytes)", archive.path().display(), archive.size()));
    Ok(())
}
