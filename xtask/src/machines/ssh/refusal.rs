//! Why ssh did not get in, in plain words, each with its next step.

use crate::failure::{Failure, Kind};
use crate::process::{self, quoted};
use crate::tables::machines::SshMachine;

/// The same log-in as a person would try it, to see more.
pub fn by_hand(machine: &SshMachine) -> String {
    let mut words = vec!["ssh".to_string(), "-v".into(), "-p".into(), machine.port.to_string()];
    if let Some(key) = &machine.key_file {
        words.extend(["-i".to_string(), key.display().to_string()]);
    }
    if let Some(file) = &machine.known_hosts {
        words.extend(["-o".to_string(), format!("UserKnownHostsFile={}", file.display())]);
    }
    words.push(login(machine));
    format!("try it by hand: {} true", quoted(&words))
}

fn login(machine: &SshMachine) -> String {
    machine.user.as_ref().map_or(machine.host.clone(), |user| format!("{user}@{}", machine.host))
}

/// Host and port as `known_hosts` has them.
fn host_and_port(machine: &SshMachine) -> String {
    match machine.port {
        22 => machine.host.clone(),
        port => format!("[{}]:{port}", machine.host),
    }
}

fn known_hosts(machine: &SshMachine) -> String {
    let usual =
        || std::path::PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".ssh/known_hosts");
    machine.known_hosts.clone().unwrap_or_else(usual).display().to_string()
}

/// The failure that ssh's own words stand for.
pub fn explain(machine: &SshMachine, said: &str) -> Failure {
    let place = format!("{} port {}", machine.host, machine.port);
    let (what, next) = if said.contains("REMOTE HOST IDENTIFICATION HAS CHANGED") {
        changed_key(machine, said)
    } else if said.contains("Host key verification failed") {
        unknown_key(machine)
    } else if said.contains("UNPROTECTED PRIVATE KEY FILE") {
        let key = machine.key_file.as_ref().map(|key| key.display().to_string()).unwrap_or_default();
        (format!("others may read the private key {key}, so ssh does not use it"), format!("chmod 600 {key}"))
    } else if said.contains("Permission denied") {
        refused_key(machine)
    } else if said.contains("Could not resolve hostname") {
        let next = "mend `host` in machines.toml, or see that the name is known here";
        (format!("nobody knows a host named {}", machine.host), next.to_string())
    } else if said.contains("Connection refused") {
        (
            format!("no sshd answers at {place}"),
            "see that sshd runs there and that `port` is right".to_string(),
        )
    } else if let Some(why) = ["No route to host", "Network is unreachable", "timed out"]
        .into_iter()
        .find(|part| said.contains(part))
    {
        let next = "see that the machine is up and that no firewall is between";
        (format!("{place} cannot be reached: {}", why.to_lowercase()), next.to_string())
    } else {
        (format!("ssh cannot connect to {place}"), by_hand(machine))
    };
    let words: Vec<&str> =
        said.lines().filter(|line| !line.starts_with("$ ") && !line.starts_with('@')).collect();
    let tail = process::indented(&words[words.len().saturating_sub(4)..].join("\n"));
    let what = format!("ssh:{}: {what}\n{tail}", machine.name);
    Failure::new(Kind::MachineUnreachable, what.trim_end()).next(next)
}

fn changed_key(machine: &SshMachine, said: &str) -> (String, String) {
    // `Offending ED25519 key in /home/a/.ssh/known_hosts:3`
    let at =
        said.lines().find(|line| line.starts_with("Offending ")).and_then(|line| line.split(" in ").nth(1));
    let at = at.map_or(known_hosts(machine), |at| at.trim().to_string());
    let name = host_and_port(machine);
    let what = format!(
        "the host key of {name} is not the one in {at}: the machine was installed anew, or this is another machine"
    );
    let words = ["ssh-keygen", "-f", &known_hosts(machine), "-R", &name].map(String::from);
    (what, format!("if you know why it changed: {}, then as for a new machine", quoted(&words)))
}

fn unknown_key(machine: &SshMachine) -> (String, String) {
    let file = known_hosts(machine);
    let what = format!("the host key of {} is not in {file}", host_and_port(machine));
    let scan = ["ssh-keyscan", "-p", &machine.port.to_string(), &machine.host].map(String::from);
    let next = format!(
        "{} >> {}, and compare its fingerprint (ssh-keygen -lf {}) with the machine's",
        quoted(&scan),
        quoted(std::slice::from_ref(&file)),
        quoted(std::slice::from_ref(&file)),
    );
    (what, next)
}

fn refused_key(machine: &SshMachine) -> (String, String) {
    let user = machine.user.as_ref().map_or("the user".into(), |user| format!("user {user}"));
    match &machine.key_file {
        Some(key) => {
            let key = key.display();
            let what = format!("{} lets {user} not in with the key {key}", machine.host);
            let next = format!(
                "append {key}.pub to that user's authorized_keys there; a key with a passphrase must be in ssh-agent"
            );
            (what, next)
        }
        None => (
            format!("{} lets {user} not in with any key that ssh has", machine.host),
            "name the key with `key-file` in machines.toml, or add it to ssh-agent".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> SshMachine {
        let text = "host = \"h.example\"\nport = 2222\nuser = \"u\"\nwork-folder = \"/w\"\ntarget = \"t\"\n";
        let mut machine: SshMachine = toml::from_str(text).unwrap();
        machine.name = "big".into();
        machine.key_file = Some("/k/id".into());
        machine.known_hosts = Some("/k/known".into());
        machine
    }

    #[test]
    fn each_reason_has_its_words_and_its_next_step() {
        let cases = [
            ("Host key verification failed.", "not in /k/known", "ssh-keyscan -p 2222 h.example >> /k/known"),
            ("u@h: Permission denied (publickey).", "user u not in with the key /k/id", "/k/id.pub"),
            (
                "ssh: Could not resolve hostname h.example: Name or service not known",
                "nobody knows",
                "`host`",
            ),
            ("ssh: connect to host h port 2222: Connection refused", "no sshd answers", "sshd runs"),
            ("ssh: connect to host h port 2222: No route to host", "no route to host", "firewall"),
            ("ssh: connect to host h port 2222: Connection timed out", "timed out", "firewall"),
            ("@  WARNING: UNPROTECTED PRIVATE KEY FILE!  @", "others may read", "chmod 600 /k/id"),
            (
                "kex_exchange_identification: read: Connection reset by peer",
                "cannot connect",
                "ssh -v -p 2222",
            ),
        ];
        for (said, what, next) in cases {
            let failure = explain(&machine(), said);
            assert_eq!(failure.kind, Kind::MachineUnreachable);
            assert!(failure.what.contains(what), "{}", failure.what);
            assert!(failure.next.as_ref().unwrap().contains(next), "{:?}", failure.next);
        }
    }

    #[test]
    fn a_changed_host_key_is_told_with_file_and_line() {
        let said = "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nOffending ED25519 key in /k/known:3\n\
                    Host key verification failed.\n";
        let failure = explain(&machine(), said);
        assert!(failure.what.contains("/k/known:3"), "{}", failure.what);
        assert!(failure.next.unwrap().contains("ssh-keygen -f /k/known -R '[h.example]:2222'"));
    }
}
