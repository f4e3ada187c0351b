//! `setup`: installs the packages that the host lacks.

use anyhow::Result;

use crate::home::Home;
use crate::tables::product::Product;
use crate::tables::target::Target;
use crate::{debian, setup, ui};

/// Install the packages that a target and a product need on this host.
///
/// The verbs that need them do this themselves.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask setup --target ppc64le\n  cargo xtask setup --target ppc64le --print   only show the commands"
)]
pub struct Args {
    /// The target; see `cargo xtask targets`.
    #[arg(long, short, default_value = "ppc64le")]
    target: String,
    /// The product; see `cargo xtask products`.
    #[arg(long, short, default_value = "mariadb")]
    product: String,
    /// Print the commands that would be run, and run none.
    #[arg(long)]
    print: bool,
}

/// Installs, or prints.
pub fn run(args: Args) -> Result<()> {
    let target = Target::load(&args.target)?;
    let product = Product::load(&args.product)?;
    if !args.print {
        setup::ensure(&Home::open()?, &target, Some(&product))?;
        ui::step("setup", &format!("everything is here for {} on {}", product.name, target.name));
        return Ok(());
    }
    let wanted = setup::packages(&target, Some(&product))?;
    if debian::codename().is_none() {
        ui::print(&format!("# {} is not Debian; what these packages hold is needed:", debian::host_name()));
        ui::print(&wanted.join(" "));
        return Ok(());
    }
    let absent = setup::missing(&wanted)?;
    if absent.is_empty() {
        ui::print("# nothing is missing");
        return Ok(());
    }
    let prefix: &[&str] = if setup::privilege() == setup::Privilege::Root { &[] } else { &["sudo"] };
    for words in setup::commands(&absent, prefix) {
        ui::print(&words.join(" "));
    }
    Ok(())
}
