//! `build`: from a pinned release to a checked bundle.

use anyhow::Result;

use super::common::What;
use crate::pipeline::From;
use crate::ui;

/// Cross-compile a product for a target and pack it, checked, into one bundle.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask build --target ppc64le\n  cargo xtask build --target ppc64le --launcher none --jobs 8\n  cargo xtask build --from distro   pack the distribution's own build instead"
)]
pub struct Args {
    #[command(flatten)]
    what: What,
    /// Where the programs come from.
    #[arg(long, value_enum, default_value = "source")]
    from: From,
    /// Print the bundle's manifest and path as JSON.
    #[arg(long)]
    json: bool,
}

/// Builds it and says where the bundle is.
pub fn run(args: Args) -> Result<()> {
    let pipeline = args.what.pipeline()?;
    let toolchain = pipeline.toolchain(&[args.from])?;
    let bundle = pipeline.bundle(&toolchain, args.from)?;
    if !args.json {
        ui::print(&bundle.file().display().to_string());
        return Ok(());
    }
    let value = serde_json::json!({
        "bundle": bundle.file(), "key": bundle.key(), "manifest": bundle.manifest(),
    });
    ui::print(&serde_json::to_string_pretty(&value)?);
    Ok(())
}
