//! File systems and networks of a test's own, in namespaces: made by root, or by anybody where the kernel lets users
//! have namespaces. Where it does not, the test fails and says so.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::kill;

fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Back from the namespace's root to who we are: a program that believes to be root behaves otherwise.
fn as_ourselves() -> String {
    if root() {
        return "exec \"$@\"".into();
    }
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    format!("exec unshare --user --map-user={user} --map-group={group} -- \"$@\"")
}

fn unshare(what: &str) -> Command {
    let mut command = Command::new("unshare");
    command.arg(what);
    if !root() {
        command.args(["--user", "--map-root-user"]);
    }
    command.arg("--");
    command
}

/// A command that runs what follows where `folder` is a file system in memory.
pub fn with_tmpfs(folder: &Path, options: &str) -> Command {
    fs::create_dir_all(folder).expect("a folder");
    let script = format!("mount -t tmpfs -o {options} tmpfs '{}' && {}", folder.display(), as_ourselves());
    let mut command = unshare("--mount");
    command.args(["sh", "-c", &script, "sh"]);
    command
}

/// Two networks with a cable between them.
pub struct Cable {
    ends: [End; 2],
}

/// A network, held by a process that sleeps in it.
struct End {
    holder: Child,
}

/// Addresses of the two ends.
pub const ADDRESSES: [&str; 2] = ["10.111.0.1", "10.111.0.2"];

impl Cable {
    /// Makes both and connects them.
    pub fn lay() -> Self {
        let mut first = unshare("--net");
        let first = End::held(first.args(["sleep", "100000"]));
        let mut second = first.within("");
        let second = End::held(second.args(["unshare", "--net", "--", "sleep", "100000"]));
        let peer = second.holder.id().to_string();
        first.ip(&format!("link add end0 type veth peer name end1 netns {peer}"));
        let cable = Cable { ends: [first, second] };
        for (index, end) in cable.ends.iter().enumerate() {
            end.ip(&format!("addr add {}/24 dev end{index}", ADDRESSES[index]));
            end.ip(&format!("link set end{index} up"));
            end.ip("link set lo up");
        }
        cable
    }

    /// A command that runs what follows at an end.
    pub fn at(&self, end: usize) -> Command {
        self.ends[end].within(&as_ourselves())
    }

    /// Takes the second end down: nothing arrives any more, and nobody is told.
    pub fn cut(&self) {
        self.ends[1].ip("link set end1 down");
    }
}

impl End {
    fn held(command: &mut Command) -> Self {
        let of = |id: &str| fs::read_link(format!("/proc/{id}/ns/net")).expect("/proc");
        let mut holder =
            command.stdin(Stdio::null()).spawn().expect("unshare starts; apt-get install util-linux");
        let until = Instant::now() + Duration::from_secs(10);
        let id = holder.id().to_string();
        let sleeps =
            |id: &str| fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.starts_with(b"sleep"));
        while !sleeps(&id) {
            let ended = holder.try_wait().expect("a child can be asked");
            assert!(
                ended.is_none() && Instant::now() < until,
                "no network of its own: run it as root, or let users have namespaces \
                 (sysctl kernel.unprivileged_userns_clone=1)"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_ne!(of(&id), of("self"), "unshare made no network");
        End { holder }
    }

    /// A command that runs what follows in it, by a script, or as it is.
    fn within(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.holder.id().to_string(), "--net"]);
        if !root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg("--");
        if !script.is_empty() {
            command.args(["sh", "-c", script, "sh"]);
        }
        command
    }

    fn ip(&self, words: &str) {
        let output = self.within("").arg("ip").args(words.split(' ')).output();
        let output = output.expect("nsenter starts; apt-get install iproute2 util-linux");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "ip {words}: {said} (apt-get install iproute2)");
    }
}

impl Drop for End {
    fn drop(&mut self) {
        kill(self.holder.id(), Signal::KILL);
        let _ = self.holder.wait();
    }
}
