//! `products`: what the product tables hold.

use anyhow::Result;

use crate::tables::product::Product;
use crate::ui::{self, Table};

/// List the products and their pinned releases.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask products\n  cargo xtask products --json | jq '.[].release[].sha256'"
)]
pub struct Args {
    /// Print every field, as JSON.
    #[arg(long)]
    json: bool,
}

/// Prints a row a release.
pub fn run(args: Args) -> Result<()> {
    let products = Product::names()?.iter().map(|name| Product::load(name)).collect::<Result<Vec<_>>>()?;
    if args.json {
        ui::print(&serde_json::to_string_pretty(&products)?);
        return Ok(());
    }
    let mut table = Table::new(&["product", "release", "MiB", "sha256", "description"]);
    for product in &products {
        for release in &product.release {
            let size = format!("{:.1}", release.size as f64 / f64::from(1 << 20));
            let cells = [&product.name, &release.version, &size, &release.sha256, &product.description];
            table.row(cells.map(String::clone));
        }
    }
    table.print();
    Ok(())
}
