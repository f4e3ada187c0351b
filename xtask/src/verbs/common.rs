//! Flags that several verbs share.

use anyhow::Result;

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::patches::selection::Selection;
use crate::pipeline::Pipeline;
use crate::stages::build::Options;
use crate::tables::product::Product;
use crate::tables::target::Target;

/// The release of a product.
#[derive(clap::Args)]
pub struct Release {
    /// The product; see `cargo xtask products`. Verbs that build take several, separated by commas.
    #[arg(long, short, value_delimiter = ',', default_value = "mariadb")]
    pub product: Vec<String>,
    /// The product's release; left out: its first.
    #[arg(long)]
    pub release: Option<String>,
    /// Parts of the product that are built as well, separated by commas; see `cargo xtask products`.
    #[arg(long = "with", value_name = "PARTS", value_delimiter = ',')]
    pub parts: Vec<String>,
    /// Patches of the release that are in it: `all`, `none`, or numbers and names separated by commas; -NAME leaves one
    /// out. See `cargo xtask patch list`.
    #[arg(long, value_name = "PATCHES", default_value_t = Selection::ALL, allow_hyphen_values = true)]
    pub patches: Selection,
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
    target: Vec<String>,
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
    /// The products, each once.
    fn products(&self) -> Result<Vec<&str>> {
        let all = once(&self.product);
        if all.len() > 1 && self.release.is_some() {
            let what = "--release is of one product, but several were named";
            return Err(Failure::new(Kind::Usage, what).next("leave --release out").into());
        }
        Ok(all)
    }

    /// The product, where a verb is about one.
    fn product(&self) -> Result<&str> {
        match self.products()?.as_slice() {
            [one] => Ok(one),
            _ => Err(Failure::new(Kind::Usage, "this verb is about one product").next("name one").into()),
        }
    }

    /// The parts that are asked for of a product: of several, those that it has.
    fn parts_of(&self, product: &Product) -> Vec<String> {
        let several = once(&self.product).len() > 1;
        let wanted = self.parts.iter().filter(|part| !several || product.part.contains_key(*part));
        wanted.cloned().collect()
    }

    fn pipeline(&self, product: &str, target: &str, options: Options) -> Result<Pipeline> {
        let target = Target::load(target)?;
        let product = Product::load(product)?;
        let parts = self.parts_of(&product);
        let product = product.with(&parts)?;
        let release = product.release(self.release.as_deref())?.clone();
        let home = Home::open()?.offline(self.offline);
        let patches = self.patches.clone();
        Ok(Pipeline { home, target, product, release, options, patches })
    }
}

/// The words, each once.
fn once(words: &[String]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    words.iter().map(String::as_str).for_each(|word| {
        if !all.contains(&word) {
            all.push(word)
        }
    });
    all
}

impl How {
    fn options(&self) -> Result<Options> {
        Options::new(self.launcher.as_deref(), self.jobs)
    }
}

impl Which {
    /// Reads the tables that the flags name.
    pub fn pipeline(&self, options: Options) -> Result<Pipeline> {
        self.product.pipeline(self.product.product()?, &self.target, options)
    }
}

impl One {
    /// Reads the tables that the flags name.
    pub fn pipeline(&self) -> Result<Pipeline> {
        self.which.pipeline(self.how.options()?)
    }
}

impl What {
    /// Reads the tables that the flags name: one pipeline a target and product, each once.
    pub fn pipelines(&self) -> Result<Vec<Pipeline>> {
        let mut all = Vec::new();
        for target in once(&self.target) {
            for product in self.product.products()? {
                all.push(self.product.pipeline(product, target, self.how.options()?)?);
            }
        }
        Ok(all)
    }

    /// The same with other patches.
    pub fn pipelines_with(&self, patches: &Selection) -> Result<Vec<Pipeline>> {
        let mut all = self.pipelines()?;
        all.iter_mut().for_each(|pipeline| pipeline.patches = patches.clone());
        Ok(all)
    }

    /// How many pipelines that is.
    pub fn count(&self) -> usize {
        once(&self.target).len() * once(&self.product.product).len()
    }

    /// The same for a target of another name, where there is one product.
    pub fn pipeline(&self, target: &str) -> Result<Pipeline> {
        self.product.pipeline(self.product.product()?, target, self.how.options()?)
    }
}
