//! An sshd of a test's own: on loopback, with its own host key, its own user key and a `machines.toml` that names it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::{Call, call, kill};

/// A running sshd, with all that belongs to it in one folder. Dropped, both are gone.
pub struct Sshd {
    child: Child,
    port: u16,
    // Last, so that it outlives the process.
    folder: tempfile::TempDir,
}

impl Sshd {
    /// Starts one that runs programs for the target.
    pub fn start(target: &str) -> Self {
        Self::start_by(target, Command::new("env"))
    }

    /// Starts one by a command that runs what follows.
    pub fn start_by(target: &str, command: Command) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|l| l.local_addr());
        Self::start_at(target, "127.0.0.1", port.expect("a port").port(), command)
    }

    /// Starts one that listens at an address, by a command that runs what follows.
    pub fn start_at(target: &str, address: &str, port: u16, mut command: Command) -> Self {
        // Not in a folder that the user's umask or a quota could make unusable to sshd.
        let folder = tempfile::Builder::new().prefix("sshd-").tempdir_in("/tmp").expect("a folder");
        let at = |name: &str| folder.path().join(name);
        for name in ["host", "user"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"];
            let made = Command::new("ssh-keygen").args(words).arg(at(name)).status();
            assert!(made.expect("ssh-keygen starts; apt-get install openssh-client").success());
        }
        fs::copy(at("user.pub"), at("authorized")).expect("a copy");
        fs::set_permissions(at("authorized"), fs::Permissions::from_mode(0o600)).expect("a mode");
        let config = [
            format!("Port {port}"),
            format!("ListenAddress {address}"),
            format!("HostKey {}", at("host").display()),
            format!("AuthorizedKeysFile {}", at("authorized").display()),
            "AuthenticationMethods publickey".into(),
            "PermitRootLogin yes".into(),
            "StrictModes no".into(),
            "UsePAM no".into(),
            "PidFile none".into(),
            "MaxSessions 100".into(),
        ];
        fs::write(at("config"), config.join("\n") + "\n").expect("a file");
        if rustix::process::geteuid().is_root() {
            // Where it locks itself in before a log-in; Debian makes it when the service starts.
            fs::create_dir_all("/run/sshd").expect("/run/sshd");
        }
        let log = fs::File::create(at("log")).expect("a file");
        command.arg(program()).args(["-D", "-e", "-f"]).arg(at("config"));
        let child = command.stdin(Stdio::null()).stderr(log).spawn().expect("sshd starts");
        let mut sshd = Sshd { child, port, folder };
        sshd.wait(address);
        sshd.know_host(address, &fs::read_to_string(sshd.at("host.pub")).expect("a key"));
        sshd.write_machines(&sshd.machine(target, address));
        sshd
    }

    fn wait(&mut self, address: &str) {
        let until = Instant::now() + Duration::from_secs(20);
        let said = self.folder.path().join("log");
        let ready = |text: &str| text.contains("Server listening");
        while !fs::read_to_string(&said).is_ok_and(|text| ready(&text)) {
            let ended = self.child.try_wait().expect("a child can be asked");
            let said = fs::read_to_string(&said).unwrap_or_default();
            assert!(ended.is_none() && Instant::now() < until, "no sshd at {address}:{}: {said}", self.port);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A file of its folder.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Its port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder where deployments and data go.
    pub fn work(&self) -> PathBuf {
        self.at("work")
    }

    /// The file that names it `loopback`.
    pub fn machines(&self) -> PathBuf {
        self.at("machines.toml")
    }

    /// The table of the machine `loopback`.
    pub fn machine(&self, target: &str, address: &str) -> String {
        format!(
            "[loopback]\nhost = \"{address}\"\nport = {}\nuser = \"{}\"\nkey-file = \"{}\"\nknown-hosts = \"{}\"\n\
             work-folder = \"{}\"\ntarget = \"{target}\"\n",
            self.port,
            user(),
            self.at("user").display(),
            self.at("known").display(),
            self.work().display(),
        )
    }

    /// Writes two machines, `a` and `b`, into machines.toml: two accounts of this sshd with folders of their own.
    pub fn write_two_machines(&self, target: &str) {
        let table = self.machine(target, "127.0.0.1");
        let (a, b) = (table.replace("[loopback]", "[a]"), table.replace("[loopback]", "[b]"));
        let b = b.replace(&self.work().display().to_string(), &self.at("other").display().to_string());
        let address = "address = \"127.0.0.1\"\n";
        self.write_machines(&format!("{a}{address}{b}{address}"));
    }

    /// Writes the file of machines.
    pub fn write_machines(&self, text: &str) {
        fs::write(self.machines(), text).expect("a file");
    }

    /// Writes the file of host keys: one for this sshd.
    pub fn know_host(&self, address: &str, key: &str) {
        fs::write(self.at("known"), format!("[{address}]:{} {key}", self.port)).expect("a file");
    }

    /// What a command line says there.
    pub fn run(&self, line: &str) -> String {
        let mut command = Command::new("ssh");
        command
            .args(["-F", "none", "-o", "BatchMode=yes", "-p", &self.port.to_string(), "-i"])
            .arg(self.at("user"));
        command.args(["-o", &format!("UserKnownHostsFile={}", self.at("known").display())]);
        let output = command.args(["127.0.0.1", line]).output().expect("ssh starts");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Ends it.
    pub fn end(&mut self) {
        // Its sessions end with their clients, unless the link to them was cut.
        let id = self.child.id();
        let sessions = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).unwrap_or_default();
        kill(id, Signal::TERM);
        let _ = self.child.wait();
        for session in sessions.split_whitespace().filter_map(|id| id.parse().ok()) {
            kill(session, Signal::TERM);
        }
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.end();
        }
    }
}

/// What this host's own programs are.
pub fn own_target() -> String {
    let output = Command::new("uname").arg("-m").output().expect("uname starts");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

/// `xtask VERB … --on ssh:loopback` with the distribution's build.
pub fn on(sshd: &Sshd, target: &str, verb: &str, more: &[&str]) -> Call {
    let machines = sshd.machines().display().to_string();
    let mut words =
        vec![verb, "--target", target, "--from", "distro", "--on", "ssh:loopback", "--machines", &machines];
    words.extend(more);
    call(&words)
}

/// sshd, by its whole path: it refuses to start otherwise.
pub fn program() -> PathBuf {
    let program = Path::new("/usr/sbin/sshd");
    assert!(program.is_file(), "{} is not there; apt-get install openssh-server", program.display());
    program.to_path_buf()
}

/// The name of the user who runs the tests.
pub fn user() -> String {
    let output = Command::new("id").arg("-un").output().expect("id starts");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}
