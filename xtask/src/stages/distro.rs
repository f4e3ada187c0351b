//! The distribution's own build of a product, as an install tree: nothing is compiled.

use std::fs;

use anyhow::Result;
use model::record::BundleFacts;
use serde::{Deserialize, Serialize};

use crate::debian::{self, AptRoot, Package};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::stage::{Leftover, Stage};
use crate::stages::install_tree::{InstallTree, install};
use crate::tables::product::Product;
use crate::tables::target::{Sysroot, Target};
use crate::{interrupt, ui};

/// Raised when this file takes something else from the same packages.
const RECIPE: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Receipt {
    packages: Vec<Package>,
}

/// Fails where no distribution has packages of the target.
pub fn exists(target: &Target) -> Result<()> {
    match &target.sysroot {
        Sysroot::Debian { .. } => Ok(()),
        Sysroot::Source { .. } => {
            let what = format!("no distribution has packages for {}: its sysroot is built here", target.name);
            Err(Failure::new(Kind::Usage, what).next("use --from source").into())
        }
    }
}

/// Finds the distribution's install tree, or makes it.
pub fn make(home: &Home, target: &Target, product: &Product) -> Result<InstallTree> {
    exists(target)?;
    let distro = product.distro()?;
    let Sysroot::Debian { architecture, suites, multiarch, .. } = &target.sysroot else {
        anyhow::bail!("{} has a distribution and no packages", target.name);
    };
    let stage = Stage {
        home,
        name: "distro",
        label: format!("{}-{}", product.name, target.name),
        leftover: Leftover::Discard,
    };
    let inputs = (architecture, suites, distro, RECIPE);
    let done = stage.get(&inputs, |work| {
        ui::step(
            "distro",
            &format!("{} of {architecture} from {}", distro.packages.join(" "), suites.join(", ")),
        );
        home.need_space(1 << 30, "the distribution's packages")?;
        let debs = AptRoot::open(home, architecture, suites)?.download_closure(&distro.packages)?;
        let root = work.join("root");
        fs::create_dir_all(&root)?;
        let mut packages = Vec::new();
        for deb in &debs {
            interrupt::check()?;
            debian::unpack(deb, &root)?;
            packages.push(debian::package_of(deb)?);
        }
        packages.sort();
        install(&distro.install, &[("", &root)], &work.join("install"))?;
        Ok(Receipt { packages })
    })?;
    let packages = done.receipt.packages;
    let server = distro.packages.first();
    let release =
        packages.iter().find(|p| Some(&p.name) == server).map_or("unknown".into(), |p| p.version.clone());
    let folders = ["lib", "usr/lib"].map(|folder| done.folder.join("root").join(folder).join(multiarch));
    Ok(InstallTree {
        develop: None,
        folder: done.folder.join("install"),
        // Packages of another day are another build, though the folder's name is the same.
        key: crate::stage::key_of(&(done.key, &packages))?,
        library_folders: folders.to_vec(),
        facts: BundleFacts {
            product: product.name.clone(),
            release,
            origin: "distro".into(),
            packages: packages.iter().map(ToString::to_string).collect(),
            ..BundleFacts::default()
        },
        joined: Vec::new(),
    })
}
