//! Flags that several verbs share.

use anyhow::Result;

use crate::home::Home;
use crate::pipeline::Pipeline;
use crate::stages::build::Options;
use crate::tables::product::Product;
use crate::tables::target::Target;

/// What is worked on.
#[derive(clap::Args)]
pub struct Which {
    /// The target; see `cargo xtask targets`.
    #[arg(long, short, default_value = "ppc64le")]
    pub target: String,
    /// The product; see `cargo xtask products`.
    #[arg(long, short, default_value = "mariadb")]
    pub product: String,
    /// The product's release; left out: its first.
    #[arg(long)]
    pub release: Option<String>,
    /// Download nothing: what is not in the cache is an error.
    #[arg(long)]
    pub offline: bool,
}

/// What is built, and how.
#[derive(clap::Args)]
pub struct What {
    #[command(flatten)]
    which: Which,
    /// Compiler launcher: ccache, sccache, distcc, … or `none`; left out: ccache or sccache, if there is one.
    #[arg(long)]
    pub launcher: Option<String>,
    /// Parallel compile jobs; left out: ninja decides.
    #[arg(long, short, value_parser = clap::value_parser!(u32).range(1..))]
    pub jobs: Option<u32>,
}

impl Which {
    /// Reads the tables that the flags name.
    pub fn pipeline(&self, options: Options) -> Result<Pipeline> {
        let target = Target::load(&self.target)?;
        let product = Product::load(&self.product)?;
        let release = product.release(self.release.as_deref())?.clone();
        let home = Home::open()?.offline(self.offline);
        Ok(Pipeline { home, target, product, release, offline: self.offline, options })
    }
}

impl What {
    /// Reads the tables that the flags name.
    pub fn pipeline(&self) -> Result<Pipeline> {
        self.which.pipeline(Options::new(self.launcher.as_deref(), self.jobs)?)
    }
}
