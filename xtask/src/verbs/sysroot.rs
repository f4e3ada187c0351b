//! `sysroot`: makes a target's sysroot, or makes it anew.

use anyhow::Result;

use crate::home::Home;
use crate::stages::sysroot;
use crate::tables::target::Target;
use crate::ui;

/// Make a target's sysroot: its headers and libraries, from packages or built here, in a folder, without root.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask sysroot --target ppc64le\n  cargo xtask sysroot --target ppc64le --renew   from today's packages"
)]
pub struct Args {
    /// The target; see `cargo xtask targets`.
    #[arg(long, short, default_value = "ppc64le")]
    target: String,
    /// Make it anew from today's packages; what was built with other versions is not reused.
    #[arg(long)]
    renew: bool,
    /// Print folder and packages as JSON.
    #[arg(long)]
    json: bool,
}

/// Makes it and says where it is.
pub fn run(args: Args) -> Result<()> {
    let target = Target::load(&args.target)?;
    let sysroot = sysroot::make(&Home::open()?, &target, args.renew)?;
    if args.json {
        let value = serde_json::json!({ "folder": sysroot.root(), "packages": sysroot.packages() });
        ui::print(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    ui::step("sysroot", &format!("{} packages in {}", sysroot.packages().len(), sysroot.root().display()));
    Ok(())
}
