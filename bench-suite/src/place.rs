//! `place`: the folders of one running server, its data and a short one for its socket, and a port for it.
//!
//! They go with the process that holds them. What a killed one left is found by the next one, which removes it.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::output::for_people;

const PREFIX: &str = "data-";
/// In a data folder: locked while its holder lives.
const LOCK: &str = "portbench.lock";
/// In a data folder: a link to the socket's folder, so that both are removed together.
const SOCKETS: &str = "portbench.sockets";
/// Longest folder for temporary files that leaves room for a socket's name: its path has at most 107 bytes.
const LONGEST_TEMPORARY_BYTES: usize = 60;
const TICK: Duration = Duration::from_millis(20);

/// Make a private data folder, a short folder for a socket and a free port, and hold them
///
/// Prints them as one line of JSON. They are removed when standard input ends, or at SIGTERM, SIGINT or SIGHUP.
#[derive(clap::Args)]
pub struct Args {
    /// Where the data folder is made; what killed ones left there is removed
    #[arg(long, value_name = "FOLDER")]
    below: PathBuf,
    /// A data folder of the user's instead: made if it is not there, and kept
    #[arg(long, value_name = "FOLDER")]
    data: Option<PathBuf>,
    /// Further free ports that are told
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    more_ports: u16,
}

/// A server's folders.
#[derive(Debug)]
pub struct Place {
    data: PathBuf,
    sockets: PathBuf,
    /// Whether the data is the user's and stays.
    kept: bool,
    _lock: File,
}

impl Place {
    /// Makes the folders, and removes those that nobody holds any more.
    pub fn make(below: &Path) -> io::Result<Self> {
        let about = |path: &Path, error: io::Error| {
            io::Error::new(error.kind(), format!("cannot make a folder in {}: {error}", path.display()))
        };
        fs::create_dir_all(below).map_err(|error| about(below, error))?;
        sweep(below);
        let data = private_folder(below, PREFIX).map_err(|error| about(below, error))?;
        Self::hold(data.clone(), false).inspect_err(|_| {
            let _ = fs::remove_dir_all(&data);
        })
    }

    /// Holds a data folder of the user's, which stays; makes it if it is not there.
    pub fn keep(data: &Path) -> io::Result<Self> {
        let about = |error: io::Error| {
            io::Error::new(error.kind(), format!("cannot use {} for data: {error}", data.display()))
        };
        DirBuilder::new().mode(0o700).recursive(true).create(data).map_err(about)?;
        let data = fs::canonicalize(data).map_err(about)?;
        if let Ok(stale) = fs::read_link(data.join(SOCKETS)) {
            let lock = File::open(data.join(LOCK)).map_err(about)?;
            lock.try_lock().map_err(|_| about(io::Error::other("another server uses it")))?;
            let _ = fs::remove_dir_all(stale);
            fs::remove_file(data.join(SOCKETS)).map_err(about)?;
        }
        Self::hold(data.clone(), true).map_err(about)
    }

    fn hold(data: PathBuf, kept: bool) -> io::Result<Self> {
        let lock = File::create(data.join(LOCK))?;
        lock.try_lock().map_err(|_| io::Error::other("another server uses it"))?;
        let temporary = temporary_folder();
        let sockets = private_folder(&temporary, "portbench-").map_err(|error| {
            io::Error::new(error.kind(), format!("cannot make a folder in {}: {error}", temporary.display()))
        })?;
        let place = Place { data, sockets, kept, _lock: lock };
        // Dropped on failure, it removes what is to be removed.
        symlink(&place.sockets, place.data.join(SOCKETS))?;
        Ok(place)
    }

    /// What is told of it, with ports that were free a moment ago.
    pub fn told(&self, more_ports: u16) -> io::Result<model::agent::Place> {
        // All are held at once, so that no two are the same.
        let held: Vec<TcpListener> = (0..=more_ports)
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)))
            .collect::<io::Result<_>>()?;
        let mut ports = held.iter().map(|l| Ok(l.local_addr()?.port())).collect::<io::Result<Vec<u16>>>()?;
        let port = ports.remove(0);
        Ok(model::agent::Place {
            data: self.data.clone(),
            socket: self.sockets.join("s"),
            port,
            more_ports: ports,
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.kept {
            let _ = fs::remove_dir_all(&self.sockets);
            let _ = fs::remove_file(self.data.join(SOCKETS));
            return;
        }
        // A server that is just ending may still write: a second look takes what came behind the first.
        for _ in 0..50 {
            let _ = fs::remove_dir_all(&self.sockets);
            match fs::remove_dir_all(&self.data) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => std::thread::sleep(TICK),
                _ => return,
            }
        }
    }
}

/// A folder of ours alone whose name nobody could have known.
fn private_folder(below: &Path, prefix: &str) -> io::Result<PathBuf> {
    let mut bytes = [0; 6];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    let name: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let folder = std::path::absolute(below)?.join(format!("{prefix}{name}"));
    DirBuilder::new().mode(0o700).create(&folder)?;
    Ok(folder)
}

fn temporary_folder() -> PathBuf {
    let wanted = std::env::temp_dir();
    if wanted.as_os_str().len() < LONGEST_TEMPORARY_BYTES { wanted } else { PathBuf::from("/tmp") }
}

/// Removes the folders of killed holders. What cannot be removed is not worth failing for.
fn sweep(below: &Path) {
    for entry in fs::read_dir(below).into_iter().flatten().flatten() {
        let data = entry.path();
        let mine = entry.file_name().to_string_lossy().starts_with(PREFIX);
        // Without a lock file it is being made this very moment.
        let Ok(lock) = File::open(data.join(LOCK)) else { continue };
        if !mine || lock.try_lock().is_err() {
            continue;
        }
        if let Ok(sockets) = fs::read_link(data.join(SOCKETS)) {
            let _ = fs::remove_dir_all(sockets);
        }
        let _ = fs::remove_dir_all(&data);
    }
}

/// Makes a place, tells it, and holds it until nobody needs it.
pub fn run(args: &Args) -> ExitCode {
    match hold(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            for_people(&format!("bench-suite place: {error}"));
            ExitCode::from(3)
        }
    }
}

fn hold(args: &Args) -> io::Result<()> {
    let over = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, over.clone())?;
    }
    let place = match &args.data {
        Some(data) => Place::keep(data)?,
        None => Place::make(&args.below)?,
    };
    let line = serde_json::to_string(&place.told(args.more_ports)?)?;
    // Whoever asked may have gone.
    writeln!(io::stdout(), "{line}")?;
    let ended = over.clone();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        ended.store(true, Ordering::Relaxed);
    });
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(TICK);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn what_a_killed_holder_left_is_removed_and_what_lives_is_kept() {
        let run = tempfile::tempdir().unwrap();
        let living = Place::make(run.path()).unwrap();
        // As a kill leaves it: folders whose lock nobody holds.
        let data = private_folder(run.path(), PREFIX).unwrap();
        let sockets = private_folder(&std::env::temp_dir(), "portbench-").unwrap();
        File::create(data.join(LOCK)).unwrap();
        symlink(&sockets, data.join(SOCKETS)).unwrap();
        let third = Place::make(run.path()).unwrap();
        assert!(!data.exists() && !sockets.exists(), "left behind");
        assert!(living.data.exists() && third.data.exists());
        let (data, sockets) = (third.data.clone(), third.sockets.clone());
        drop(third);
        assert!(!data.exists() && !sockets.exists(), "left behind");
    }

    #[test]
    fn a_users_data_folder_is_held_by_one_and_kept() {
        let run = tempfile::tempdir().unwrap();
        let data = run.path().join("mine");
        let held = Place::keep(&data).unwrap();
        let error = Place::keep(&data).unwrap_err().to_string();
        assert!(error.contains("another server uses it"), "{error}");
        let sockets = held.sockets.clone();
        drop(held);
        assert!(data.exists() && !sockets.exists());
        // What a killed holder left does not keep the next one out.
        symlink("/nonexistent", data.join(SOCKETS)).unwrap();
        drop(Place::keep(&data).unwrap());
    }

    #[test]
    fn a_place_is_private_and_its_socket_has_a_short_path() {
        let run = tempfile::tempdir().unwrap();
        let place = Place::make(&run.path().join("made")).unwrap();
        let told = place.told(3).unwrap();
        for folder in [&told.data, told.socket.parent().unwrap()] {
            assert_eq!(fs::metadata(folder).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert!(told.socket.as_os_str().len() <= 107 && told.port > 0 && told.data.is_absolute());
        assert!(told.more_ports.len() == 3 && !told.more_ports.contains(&told.port));
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let error = Place::make(Path::new("/proc/nothing")).unwrap_err().to_string();
        assert!(error.contains("/proc/nothing"), "{error}");
    }
}
