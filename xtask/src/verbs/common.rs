//! Flags that several verbs share.

use anyhow::Result;

use crate::home::Home;
use crate::pipeline::Pipeline;
use crate::stages::build::Options;
use crate::tables::product::Product;
use crate::tables::target::Target;

/// The release of a product.
#[derive(clap::Args)]
pub struct Release {
    /// The product; see `cargo xtask products`.
    #[arg(long, short, default_value = "mariadb")]
    pub product: String,
    /// The product's release; left out: its first.
    #[arg(long)]
    pub release: Option<String>,
    /// Parts of the product that are built as well, separated by commas; see `cargo xtask products`.
    #[arg(long = "with", value_name = "PARTS", value_delimiter = ',')]
    pub parts: Vec<String>,
    /// Download nothing: what is not in the cache is an error.
    #[arg(long)]
    pub offline: bool,
}

/// One target and a product.
#[derive(clap::Args)]
pub struct Which {
    /// The target; see `cargo xtask targets`.
    #[arg(long, short, default_value = "ppc64le")]
    pub target: String,
    #[command(flatten)]
    product: Release,
}

/// How a product is compiled.
#[derive(clap::Args)]
pub struct How {
    /// Compiler launcher: ccache, sccache, distcc, … or `none`; left out: ccache or sccache, if there is one.
    #[arg(long)]
    pub launcher: Option<String>,
    /// Parallel compile jobs; left out: ninja decides.
    #[arg(long, short, value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
}

/// What is built, for which targets, and how.
#[derive(clap::Args)]
pub struct What {
    /// The targets, separated by commas; see `cargo xtask targets`.
    #[arg(long, short, value_delimiter = ',', default_value = "ppc64le")]
    pub target: Vec<String>,
    #[command(flatten)]
    product: Release,
    #[command(flatten)]
    how: How,
}

/// What is built for one target, and how.
#[derive(clap::Args)]
pub struct One {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    how: How,
}

impl Release {
    fn pipeline(&self, target: &str, options: Options) -> Result<Pipeline> {
        let target = Target::load(target)?;
        let product = Product::load(&self.product)?.with(&self.parts)?;
        let release = product.release(self.release.as_deref())?.clone();
        let home = Home::open()?.offline(self.offline);
        Ok(Pipeline { home, target, product, release, offline: self.offline, options })
    }
}

impl How {
    fn options(&self) -> Result<Options> {
        Options::new(self.launcher.as_deref(), self.jobs)
    }
}

impl Which {
    /// Reads the tables that the flags name.
    pub fn pipeline(&self, options: Options) -> Result<Pipeline> {
        self.product.pipeline(&self.target, options)
    }
}

impl One {
    /// Reads the tables that the flags name.
    pub fn pipeline(&self) -> Result<Pipeline> {
        self.which.pipeline(self.how.options()?)
    }
}

impl What {
    /// Reads the tables that the flags name: one pipeline a target, each once.
    pub fn pipelines(&self) -> Result<Vec<Pipeline>> {
        let mut names: Vec<&String> = Vec::new();
        self.target.iter().for_each(|name| {
            if !names.contains(&name) {
                names.push(name)
            }
        });
        names.into_iter().map(|name| self.pipeline(name)).collect()
    }

    /// The same for a target of another name.
    pub fn pipeline(&self, target: &str) -> Result<Pipeline> {
        self.product.pipeline(target, self.how.options()?)
    }
}
