//! `deploy`: puts a bundle on a machine; what is there already is not moved again.

use std::time::Instant;

use anyhow::Result;

use super::stand::Stand;
use crate::ui;

/// Build (where needed) and put the bundle on a machine; only what changed is moved.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask deploy --target ppc64le --on qemu-system\n  cargo xtask deploy --target ppc64le --on ssh:power8"
)]
pub struct Args {
    #[command(flatten)]
    stand: Stand,
    /// Print where it stands as JSON.
    #[arg(long)]
    json: bool,
}

/// Deploys it and says where it stands.
pub fn run(args: Args) -> Result<()> {
    let begun = Instant::now();
    let deployed = args.stand.deploy(|_, deployed, _| Ok(deployed))?;
    if args.json {
        let (machine, hash) = (args.stand.on.to_string(), deployed.manifest.facts.hash);
        let value = serde_json::json!({ "machine": machine, "root": deployed.root, "bundle": hash });
        ui::print(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    let (root, time) = (deployed.root.display(), ui::duration(begun.elapsed()));
    ui::step("deployed", &format!("{root} on {}, {time} in all", args.stand.on));
    Ok(())
}
