//! `patch`: the patch queue of a release.

mod check;
mod edit;
mod export;
pub mod extract;
mod port;
mod refresh;
mod status;

use anyhow::Result;

use crate::failure::{Failure, Kind, unknown};
use crate::home::Home;
use crate::patches::selection;
use crate::patches::series::{Patch, Series};
use crate::pipeline;
use crate::stages::fetch::Archive;
use crate::tables::product::{Product, Release};
use crate::ui::{self, Table};

/// The patches of a release: what they are, whether they fit, and how they are changed.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

const EXAMPLES: &str = "Examples:
  cargo xtask patch list
  cargo xtask patch status                                  of every release: applies, already upstream, conflicts
  cargo xtask patch edit --product mysql                    the patched tree as a git repository, one commit a patch
  cargo xtask patch new mend-the-timer --product mysql      what is not committed there becomes a patch
  cargo xtask patch refresh --product mysql                 the commits there become the patches again
  cargo xtask patch port --product mariadb --release 10.11.18 --to 10.5.23
  cargo xtask patch export --product mysql --output mysql.mbox

How to choose patches for a build or a bench: --patches all, none, 0001,0003, or all,-0002.";

#[derive(clap::Subcommand)]
enum What {
    /// The patches of each release, in order.
    List(Tabled),
    /// How each patch stands to its release: applies, already upstream, or conflicts and where.
    Status(Tabled),
    /// What is wrong with the patches: headers, words, hunks that change nothing or touch what no build reads.
    Check(check::Args),
    /// Make the patched tree as a git repository, one commit a patch; or say where it is.
    Edit(Which),
    New(edit::New),
    /// Write the commits of the edited tree back as the patches.
    Refresh(Which),
    Drop(edit::Drop),
    Export(export::Args),
    Extract(extract::Args),
    Port(port::Args),
}

/// Which releases.
#[derive(clap::Args, Clone)]
pub struct Which {
    /// The product; left out: all.
    #[arg(long, short)]
    product: Option<String>,
    /// The product's release; left out: all of a list, the first of what is changed.
    #[arg(long, requires = "product")]
    release: Option<String>,
    /// Download nothing.
    #[arg(long)]
    offline: bool,
}

/// Releases, and how what is said of them is printed.
#[derive(clap::Args)]
pub struct Tabled {
    #[command(flatten)]
    which: Which,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// A release whose patches are meant.
pub struct Queue {
    /// The product whose source it is.
    product: Product,
    /// The release.
    release: Release,
    /// Its patches.
    series: Series,
}

impl Which {
    /// Every release that is meant.
    fn all(&self) -> Result<Vec<Queue>> {
        let names = match &self.product {
            Some(name) => vec![name.clone()],
            None => Product::names()?,
        };
        let mut all = Vec::new();
        for name in names {
            let product = Product::load(&name)?;
            // One source has one queue, whatever is built of it.
            if product.source() != name && self.product.is_none() {
                continue;
            }
            let product = Product::load(product.source())?;
            let releases = match &self.release {
                Some(version) => vec![product.release(Some(version))?.clone()],
                None => product.release.clone(),
            };
            for release in releases {
                all.push(Queue::of(&product, &release)?);
            }
        }
        Ok(all)
    }

    /// The one release that is meant.
    fn one(&self) -> Result<Queue> {
        let Some(name) = &self.product else {
            let next = format!("--product, one of: {}", Product::names()?.join(", "));
            return Err(Failure::new(Kind::Usage, "this is about one product").next(next).into());
        };
        let product = Product::load(Product::load(name)?.source())?;
        let release = product.release(self.release.as_deref())?.clone();
        Queue::of(&product, &release)
    }

    fn home(&self) -> Result<Home> {
        Ok(Home::open()?.offline(self.offline))
    }
}

impl Queue {
    /// The queue of a release.
    pub fn of(product: &Product, release: &Release) -> Result<Self> {
        let series = Series::of(product.source(), &release.version)?;
        Ok(Queue { product: product.clone(), release: release.clone(), series })
    }

    /// Its patches.
    pub fn series(&self) -> &Series {
        &self.series
    }

    fn label(&self) -> String {
        format!("{}-{}", self.product.source(), self.release.version)
    }

    fn archive(&self, home: &Home) -> Result<Archive> {
        pipeline::archive(home, &self.release)
    }

    /// A patch by its name or number.
    fn patch(&self, word: &str) -> Result<&Patch> {
        let found = self.series.patches.iter().find(|patch| selection::is(word, &patch.name));
        found.ok_or_else(|| unknown("patch", word, &self.series.names()).into())
    }
}

/// Does what was asked for.
pub fn run(args: Args) -> Result<()> {
    match args.what {
        What::List(args) => list(&args),
        What::Status(args) => status::run(&args),
        What::Check(args) => check::run(&args),
        What::Edit(which) => edit::run(&which),
        What::New(args) => edit::new(&args),
        What::Refresh(which) => refresh::run(&which),
        What::Drop(args) => edit::drop(&args),
        What::Export(args) => export::run(&args),
        What::Extract(args) => extract::run(&args),
        What::Port(args) => port::run(&args),
    }
}

fn list(args: &Tabled) -> Result<()> {
    let queues = args.which.all()?;
    if args.json {
        let json = |queue: &Queue| {
            let patch = |patch: &Patch| {
                serde_json::json!({
                    "name": patch.name, "sha256": patch.sha256,
                    "header": patch.header, "shared": patch.shared,
                    "files": patch.diff.files.iter().map(|file| &file.path).collect::<Vec<_>>(),
                })
            };
            let patches: Vec<_> = queue.series.patches.iter().map(patch).collect();
            serde_json::json!({
                "product": queue.product.name, "release": queue.release.version, "patches": patches,
            })
        };
        let all: Vec<_> = queues.iter().map(json).collect();
        ui::print(&serde_json::to_string_pretty(&all)?);
        return Ok(());
    }
    let mut table = Table::new(&["product", "release", "patch", "targets", "description"]);
    for queue in &queues {
        for patch in &queue.series.patches {
            let targets =
                if patch.header.targets.is_empty() { "all".into() } else { patch.header.targets.join(",") };
            let cells = [&queue.product.name, &queue.release.version, &patch.name, &targets];
            table.row(cells.into_iter().cloned().chain([patch.header.subject().to_string()]));
        }
    }
    table.print();
    Ok(())
}
