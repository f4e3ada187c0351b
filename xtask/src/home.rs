//! Where heavy things live: one folder for all checkouts, outside every repository.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::failure::{Failure, Kind};

/// The cache folder: `$PORTBENCH_HOME`, or `portbench` in `$XDG_CACHE_HOME` or `~/.cache`.
#[derive(Clone, Debug)]
pub struct Home {
    root: PathBuf,
    offline: bool,
}

impl Home {
    /// Finds the folder and makes it.
    pub fn open() -> Result<Self> {
        let root = match (var("PORTBENCH_HOME"), var("XDG_CACHE_HOME"), var("HOME")) {
            (Some(own), _, _) => own,
            (None, Some(cache), _) => cache.join("portbench"),
            (None, None, Some(home)) => home.join(".cache/portbench"),
            (None, None, None) => {
                return Err(Failure::new(
                    Kind::Usage,
                    "no folder for downloads and builds: $HOME is not set",
                )
                .next("export PORTBENCH_HOME=/a/folder/with/10/GiB")
                .into());
            }
        };
        let root = std::path::absolute(root)?;
        // It becomes part of library paths, whose separator no quoting hides.
        if root.as_os_str().as_encoded_bytes().contains(&b':') {
            let what =
                format!("{} cannot hold builds: `:` separates folders in library paths", root.display());
            let next = "export PORTBENCH_HOME=/a/folder/without/a/colon";
            return Err(Failure::new(Kind::Usage, what).next(next).into());
        }
        // Tried once, here: a stage would find out in the middle.
        let writable = std::fs::create_dir_all(&root).and_then(|()| tempfile::tempfile_in(&root));
        if let Err(error) = writable
            && error.kind() != std::io::ErrorKind::StorageFull
        {
            let what = format!("cannot use {} for downloads and builds: {error}", root.display());
            let next = "export PORTBENCH_HOME=/a/folder/that/you/may/write/to";
            return Err(Failure::new(Kind::Usage, what).next(next).into());
        }
        Ok(Home { root, offline: false })
    }

    /// The same home, into which nothing may be downloaded.
    pub fn offline(mut self, offline: bool) -> Self {
        self.offline = offline;
        self
    }

    /// Whether nothing may be downloaded.
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Fails where something would have to be downloaded and must not be.
    pub fn may_download(&self, what: &str) -> Result<()> {
        if !self.offline {
            return Ok(());
        }
        Err(Failure::new(Kind::StageFailed, format!("--offline, but {what} must be downloaded"))
            .next("run the same command once without --offline")
            .into())
    }

    /// A home at a given folder.
    #[cfg(test)]
    pub fn at(root: PathBuf) -> Self {
        Home { root, offline: false }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder in it, made.
    pub fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.root.join(name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    /// The log file of one step of one thing, e.g. `logs/build-mariadb-10.11.18-ppc64le.log`.
    pub fn log(&self, name: &str) -> Result<PathBuf> {
        Ok(self.folder("logs")?.join(format!("{name}.log")))
    }

    /// Fails early, and clearly, where a stage would fill the disk.
    pub fn need_space(&self, bytes: u64, what: &str) -> Result<()> {
        let free = free_bytes(&self.root)?;
        if free >= bytes {
            return Ok(());
        }
        let gib = |n: u64| n as f64 / f64::from(1 << 30);
        let what = format!(
            "disk full: {what} needs about {:.1} GiB in {}, {:.1} GiB are free",
            gib(bytes),
            self.root.display(),
            gib(free)
        );
        Err(Failure::new(Kind::DiskFull, what)
            .next("free some space, or export PORTBENCH_HOME=/a/folder/on/a/larger/disk")
            .into())
    }
}

/// Free bytes of the file system that holds `path`, for an unprivileged user.
pub fn free_bytes(path: &Path) -> Result<u64> {
    let stat = rustix::fs::statvfs(path)
        .with_context(|| format!("cannot ask for free space of {}", path.display()))?;
    Ok(stat.f_bavail * stat.f_frsize)
}

fn var(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// The checkout that this program was built from: tables, suites, patches and the bench suite's source.
pub fn repository() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().map(Path::to_path_buf).unwrap_or(xtask)
}
