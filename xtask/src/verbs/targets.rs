//! `targets`: what the target tables hold.

use anyhow::Result;

use crate::tables::target::Target;
use crate::ui::{self, Table};

/// List the targets.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask targets\n  cargo xtask targets --json | jq '.[].name'")]
pub struct Args {
    /// Print every field, as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints a row a target.
pub fn run(args: Args) -> Result<()> {
    let targets = Target::names()?.iter().map(|name| Target::load(name)).collect::<Result<Vec<_>>>()?;
    if args.json {
        ui::print(&serde_json::to_string_pretty(&targets)?);
        return Ok(());
    }
    let mut table = Table::new(&["target", "byte order", "baseline", "emulator", "description"]);
    for target in targets {
        let emulator = format!("{} >= {}", target.emulator.program, target.emulator.minimum);
        let order = target.byte_order.name().to_string();
        table.row([target.name, order, target.cpu.baseline, emulator, target.description]);
    }
    table.print();
    Ok(())
}
