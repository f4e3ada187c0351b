//! `build`: from a pinned release to a checked bundle.

use anyhow::Result;

use super::common::What;
use crate::pipeline::From;
use crate::ui;

/// Cross-compile a product for a target and pack it, checked, into one bundle.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask build --target ppc64le\n  cargo xtask build --target ppc64le,ppc64,x86_64\n  cargo xtask build --target ppc64le --launcher none --jobs 8\n  cargo xtask build --from distro   pack the distribution's own build instead"
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

/// Builds it and says where the bundles are.
pub fn run(args: Args) -> Result<()> {
    let mut values = Vec::new();
    for pipeline in args.what.pipelines()? {
        let toolchain = pipeline.toolchain(&[args.from])?;
        let bundle = pipeline.bundle(&toolchain, args.from)?;
        if args.json {
            values.push(serde_json::json!({
                "bundle": bundle.file(), "key": bundle.key(), "manifest": bundle.manifest(),
            }));
        } else {
            ui::print(&bundle.file().display().to_string());
        }
    }
    if args.json {
        // One target is the common case: its bundle alone, not a list of one.
        let text = match values.as_slice() {
            [one] => serde_json::to_string_pretty(one)?,
            all => serde_json::to_string_pretty(all)?,
        };
        ui::print(&text);
    }
    Ok(())
}
