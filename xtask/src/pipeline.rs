//! The stages in their order, for the verbs that need several.

use anyhow::Result;

use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::patches::selection::Selection;
use crate::patches::series::Series;
use crate::stages::build::{self, Options};
use crate::stages::bundle::{self, Bundle};
use crate::stages::fetch::{self, Archive};
use crate::stages::install_tree::InstallTree;
use crate::stages::toolchain::{self, Toolchain};
use crate::stages::{bench_binary, distro, source};
use crate::tables::product::{Product, Release};
use crate::tables::target::Target;
use crate::{debian, setup};

/// Where a product's programs come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum From {
    /// Built here, from the pinned release.
    Source,
    /// The distribution's own packages.
    Distro,
}

/// What a pipeline runs on.
pub struct Pipeline {
    /// The cache.
    pub home: Home,
    /// The target.
    pub target: Target,
    /// The product.
    pub product: Product,
    /// The release, for what is built here.
    pub release: Release,
    /// How it is compiled.
    pub options: Options,
    /// Which of the release's patches are in it.
    pub patches: Selection,
}

impl Pipeline {
    /// Packages of the host, then the toolchain, probed.
    pub fn toolchain(&self, from: &[From]) -> Result<Toolchain> {
        if from.contains(&From::Distro) {
            distro::exists(&self.target)?;
        }
        let product = from.contains(&From::Source).then_some(&self.product);
        setup::ensure(&self.home, &self.target, product)?;
        toolchain::make(&self.home, &self.target)
    }

    /// The release's archive.
    pub fn archive(&self) -> Result<Archive> {
        archive(&self.home, &self.release)
    }

    /// The product's programs.
    pub fn install_tree(&self, toolchain: &Toolchain, from: From) -> Result<InstallTree> {
        match from {
            From::Distro if self.patches != Selection::ALL => {
                let what = "--patches is for what is built here, not for the distribution's build";
                Err(Failure::new(Kind::Usage, what).next("leave it out, or use --from source").into())
            }
            From::Distro => distro::make(&self.home, &self.target, &self.product),
            From::Source => {
                let series = Series::of(self.product.source(), &self.release.version)?;
                let series = series.chosen(&self.patches, &self.target.name)?;
                let archive = self.archive()?;
                let source = source::unpack(&self.home, &self.product, &self.release, &archive, &series)?;
                let tree = |product: &Product| {
                    let plan = build::Plan { toolchain, product, release: &self.release, source: &source };
                    build::make(&self.home, &plan, &self.options)
                };
                let joined: Result<Vec<InstallTree>> = self.product.joined.iter().map(tree).collect();
                Ok(tree(&self.product)?.joined(joined?))
            }
        }
    }

    /// A bundle that holds the load generator alone.
    pub fn bench_bundle(&self, toolchain: &Toolchain) -> Result<Bundle> {
        // Built against the product's libraries, where there are any.
        let product = if self.product.develop.is_empty() {
            None
        } else {
            Some(self.install_tree(toolchain, From::Source)?)
        };
        let develop = product.as_ref().and_then(InstallTree::develop);
        let bench = bench_binary::for_target(&self.home, toolchain, develop)?;
        let tree = InstallTree::empty(&self.home, toolchain)?;
        bundle::make(&self.home, toolchain, &self.product, &tree, &bench)
    }

    /// The bundle: programs, bench binary, libraries, all checked.
    pub fn bundle(&self, toolchain: &Toolchain, from: From) -> Result<Bundle> {
        let tree = self.install_tree(toolchain, from)?;
        let bench = bench_binary::for_target(&self.home, toolchain, tree.develop())?;
        bundle::make(&self.home, toolchain, &self.product, &tree, &bench)
    }
}

/// A release's archive, from the cache or from where it is published.
pub fn archive(home: &Home, release: &Release) -> Result<Archive> {
    let offline = home.is_offline();
    // Asking apt for its mirrors is only worth it where something is to be downloaded.
    let mirrors = if offline || debian::codename().is_none() { Vec::new() } else { debian::mirrors()? };
    fetch::fetch(home, release, &mirrors, fetch::Options { offline })
}
