//! `bench micro`: primitives of MySQL's and NDB's own sources, as released and as patched, in one program.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::super::common::Which;
use super::super::patch::{Queue, extract};
use crate::machines::name::Name;
use crate::machines::{self, Call, Choices};
use crate::pipeline::{From, Pipeline};
use crate::report::micro::Figures;
use crate::stage::{key_of, remove};
use crate::stages::bundle::{self, BENCH};
use crate::stages::install_tree::InstallTree;
use crate::stages::{bench_binary, build};
use crate::tables::product::Product;
use crate::{process, ui};

/// Time primitives of the products' own sources, as released and as patched: checksums, byte order, barriers, pauses,
/// timers. Under an emulator they are only checked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench micro --target x86_64 --on local
  cargo xtask bench micro --target ppc64 --on qemu-user          checked, not timed
  cargo xtask bench micro --target ppc64le --on ssh:power --patches 0005 --json")]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// The machine: local, qemu-user, qemu-system or ssh:NAME.
    #[arg(long, value_name = "MACHINE", default_value = "qemu-user")]
    on: Name,
    #[command(flatten)]
    choices: Choices,
    /// Seconds for each figure.
    #[arg(long, default_value_t = 1.0, value_parser = super::positive)]
    seconds: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Files of the sources that the primitives are in, beside those that patches touch.
const SOURCES: [&str; 11] = [
    "extra/zlib/",
    "include/big_endian.h",
    "include/little_endian.h",
    "include/my_byteorder.h",
    "include/my_compiler.h",
    "include/my_inttypes.h",
    "include/my_rdtsc.h",
    "include/mysql/attribute.h",
    "include/template_utils.h",
    "mysys/my_rdtsc.cc",
    "storage/ndb/include/portlib/mt-asm.h",
];

/// How long the checks may take on hardware.
const CHECKED: Duration = Duration::from_secs(120);
/// Figures that are timed, at most.
const FIGURES: u32 = 60;

/// Builds it, runs it, prints what it found.
pub fn run(args: &Args) -> Result<()> {
    let pipeline = of_mysql(args.which.pipeline(build::Options::default())?)?;
    machines::refuse_impossible(&args.on, &pipeline.target, &args.choices)?;
    // With the packages that the product's own build needs: a part of it is built by its own build file.
    let toolchain = pipeline.toolchain(&[From::Source])?;
    let sources = sources(&pipeline)?;
    let binary = bench_binary::with_sources(&pipeline.home, &toolchain, &sources)?;
    let tree = InstallTree::empty(&pipeline.home, &toolchain)?;
    let bundle = bundle::make(&pipeline.home, &toolchain, &pipeline.product, &tree, &binary)?;
    let machine = machines::open(&args.on, &pipeline.home, &toolchain, &args.choices)?;
    ui::step("deploy", &format!("primitives for {} on {}", pipeline.target.name, args.on));
    let deployed = machine.deploy(&bundle)?;
    let mut link = machine.connect(&deployed)?;
    let emulated = link.emulator().is_some();
    let mut words = vec!["micro".to_string(), format!("--seconds={}", args.seconds)];
    words.extend(emulated.then(|| "--check".to_string()));
    let log = pipeline.home.log(&format!("micro-{}", pipeline.target.name))?;
    let timed = Duration::from_secs_f64(args.seconds * 2.0) * FIGURES;
    let limit = machines::limit(&*link, CHECKED) + if emulated { Duration::ZERO } else { timed };
    let call = Call::of(&deployed, BENCH).args(words);
    ui::step(
        "bench",
        if emulated { "checking: an emulator's times say nothing" } else { "checking, then timing" },
    );
    let said = process::asked("the primitives", link.command(&call), limit, &log);
    let said = machines::explained(said, || link.lost())?;
    link.stop()?;
    if emulated {
        ui::print(&format!("{}\t{}\tchecked, not timed", pipeline.target.name, args.on));
        return Ok(());
    }
    Figures::read(&said).print(args.json)
}

/// The primitives are in MySQL's sources, which NDB shares.
fn of_mysql(mut pipeline: Pipeline) -> Result<Pipeline> {
    if pipeline.product.source() != "mysql" {
        pipeline.product = Product::load("mysql")?;
        pipeline.release = pipeline.product.release(None)?.clone();
    }
    Ok(pipeline)
}

/// The folder with both: as released, and with the patches that were chosen.
fn sources(pipeline: &Pipeline) -> Result<PathBuf> {
    let queue = Queue::of(&pipeline.product, &pipeline.release)?;
    let chosen = queue.series().clone().chosen(&pipeline.patches, &pipeline.target.name)?;
    let identity = (&pipeline.release.sha256, queue.series().identity(), chosen.identity(), SOURCES);
    let folder = pipeline.home.folder("micro")?.join(key_of(&identity)?);
    if folder.exists() {
        return Ok(folder);
    }
    let work = folder.with_added_extension("partial");
    remove(&work)?;
    let more: BTreeSet<String> = SOURCES.iter().map(ToString::to_string).collect();
    let none = crate::patches::series::Series::default();
    for (name, series) in [("released", &none), ("patched", &chosen)] {
        extract::files(&pipeline.home, &queue, series, &more, &work.join(name))?;
    }
    fs::rename(&work, &folder)?;
    Ok(folder)
}
