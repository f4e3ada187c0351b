//! `toolchain`: probes a target's compilers and emulator.

use anyhow::Result;

use crate::home::Home;
use crate::stages::toolchain;
use crate::tables::target::Target;
use crate::{setup, ui};

/// Make a target's toolchain and probe it: C, C++ and Rust programs, run under the emulator at the baseline CPU.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  cargo xtask toolchain --target ppc64le")]
pub struct Args {
    /// The target; see `cargo xtask targets`.
    #[arg(long, short, default_value = "ppc64le")]
    target: String,
    /// Print what was found as JSON.
    #[arg(long)]
    json: bool,
}

/// Makes it and says what it is.
pub fn run(args: Args) -> Result<()> {
    let (home, target) = (Home::open()?, Target::load(&args.target)?);
    setup::ensure(&home, &target, None)?;
    let made = toolchain::make(&home, &target)?;
    if args.json {
        let value = serde_json::json!({
            "key": made.key(), "compiler": made.compiler(), "cmake_file": made.cmake_file(),
            "probed": made.probed(), "emulator": made.emulator(), "rust": made.rust(),
            "sysroot": made.sysroot().root(),
        });
        ui::print(&serde_json::to_string_pretty(&value)?);
        return Ok(());
    }
    ui::step("toolchain", made.compiler());
    ui::step("", &format!("Rust {} ({})", made.rust().version, made.rust().from));
    let emulator = made.emulator();
    let slowdown = made.probed().slowdown;
    ui::step(
        "",
        &format!(
            "QEMU {} as {}, {slowdown:.1} times slower than this host",
            emulator.version(),
            emulator.cpu()
        ),
    );
    Ok(())
}
