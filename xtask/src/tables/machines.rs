//! `machines.toml`: the machines that are reached by ssh, a table each. It is its owner's, so git ignores it, and it
//! holds no secrets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{parse, unknown_key};
use crate::failure::{Failure, Kind, unknown};
use crate::home::{Home, repository};
use crate::tables::target::Target;

/// The file's name.
const NAME: &str = "machines.toml";
/// Parts of keys that would hold what belongs into no file.
const SECRETS: [&str; 5] = ["password", "passwd", "passphrase", "secret", "token"];

/// A machine that is reached by ssh.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SshMachine {
    /// The table's name; not in the table.
    #[serde(skip)]
    pub name: String,
    /// Its name or address, or what `~/.ssh/config` calls it.
    pub host: String,
    /// Where its sshd listens.
    #[serde(default = "port")]
    pub port: u16,
    /// Who logs in; left out: as ssh would.
    pub user: Option<String>,
    /// The private key; left out: those that ssh would try.
    pub key_file: Option<PathBuf>,
    /// The file of host keys; left out: ssh's own.
    pub known_hosts: Option<PathBuf>,
    /// A folder there for bundles and data; an absolute path.
    pub work_folder: String,
    /// What its programs are.
    pub target: String,
    /// Where other machines and this host reach its servers; left out: `host`, and from this host through ssh.
    pub address: Option<String>,
}

fn port() -> u16 {
    22
}

/// The file: the one that was named, else the checkout's, else the cache's.
pub fn file(named: Option<&Path>) -> Result<PathBuf> {
    if let Some(file) = named {
        return Ok(file.to_path_buf());
    }
    let places = [repository().join(NAME), Home::open()?.root().join(NAME)];
    if let Some(found) = places.iter().find(|file| file.is_file()) {
        return Ok(found.clone());
    }
    let [first, second] = places.map(|file| file.display().to_string());
    let what = format!("no {NAME}: neither {first} nor {second} is there");
    Err(Failure::new(Kind::Usage, what).next(format!("write {first}; README.md shows how")).into())
}

/// Reads one machine of the file; an unknown name gets the nearest ones.
pub fn load(file: &Path, name: &str) -> Result<SshMachine> {
    let text = super::text_of(file, "name another with --machines")?;
    let machines: BTreeMap<String, SshMachine> =
        parse(file, &text).map_err(|failure| no_secret(failure, &text))?;
    let known: Vec<String> = machines.keys().cloned().collect();
    let Some(machine) = machines.get(name) else {
        return Err(unknown(&format!("machine of {}", file.display()), name, &known).into());
    };
    let machine = SshMachine {
        name: name.to_string(),
        key_file: machine.key_file.as_deref().map(at_home),
        known_hosts: machine.known_hosts.as_deref().map(at_home),
        ..machine.clone()
    };
    check(&machine, file)?;
    Ok(machine)
}

/// A key that asks for a secret is not a misspelt one.
fn no_secret(failure: Failure, text: &str) -> Failure {
    let message = toml::from_str::<BTreeMap<String, SshMachine>>(text).err();
    let key = message.and_then(|error| unknown_key(error.message())).map(|(key, _)| key);
    match key.filter(|key| SECRETS.iter().any(|part| key.to_lowercase().contains(part))) {
        Some(key) => failure.next(format!(
            "take `{key}` out: {NAME} holds no secrets; ssh logs in with a key (`key-file`), an encrypted one through \
             ssh-agent"
        )),
        None => failure,
    }
}

fn at_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), std::env::var_os("HOME")) {
        (Ok(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => path.to_path_buf(),
    }
}

fn check(machine: &SshMachine, file: &Path) -> Result<()> {
    let name = &machine.name;
    let wrong = |key: &str, what: &str| {
        Err(Failure::new(Kind::Usage, format!("{}: `{key}` of [{name}] {what}", file.display()))
            .next(format!("mend `{key}`"))
            .into())
    };
    // ssh would take it for an option.
    let plain = |text: &str| {
        !text.is_empty()
            && !text.starts_with('-')
            && !text.contains(|c: char| c.is_whitespace() || c.is_control())
    };
    if !plain(&machine.host) {
        return wrong("host", &format!("is `{}`, which is no host", machine.host));
    }
    if machine.user.as_deref().is_some_and(|user| !plain(user)) {
        return wrong("user", "is no user's name");
    }
    if machine.port == 0 {
        return wrong("port", "is 0");
    }
    let folder = &machine.work_folder;
    if !folder.starts_with('/')
        || folder.trim_end_matches('/').is_empty()
        || folder.contains(char::is_control)
    {
        return wrong("work-folder", &format!("is `{folder}`, must be an absolute path below /"));
    }
    if let Some(key) = machine.key_file.as_deref().filter(|key| !key.is_file()) {
        return wrong("key-file", &format!("names {}, which is not there", key.display()));
    }
    // Answers an unknown name with the nearest.
    Target::load(&machine.target).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str =
        "[big]\nhost = \"power.example\"\nwork-folder = \"/var/tmp/pb\"\ntarget = \"ppc64le\"\n";

    fn load_text(text: &str, name: &str) -> Result<SshMachine> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(NAME);
        std::fs::write(&file, text).unwrap();
        load(&file, name)
    }

    fn refused(text: &str) -> String {
        let error = load_text(text, "big").unwrap_err();
        assert_eq!(crate::failure::kind_of(&error), Some(Kind::Usage), "{error}");
        error.to_string()
    }

    #[test]
    fn a_machine_has_a_host_a_folder_and_a_target_and_defaults_for_the_rest() {
        let machine = load_text(GOOD, "big").unwrap();
        assert_eq!((machine.name.as_str(), machine.port), ("big", 22));
        assert_eq!((machine.user, machine.address), (None, None));
    }

    #[test]
    fn a_misspelt_key_is_answered_with_file_line_and_the_nearest() {
        let said = refused(&GOOD.replace("work-folder", "work-foldr"));
        assert!(said.contains("machines.toml") && said.contains("line 3"), "{said}");
        assert!(said.contains("did you mean `work-folder`?"), "{said}");
    }

    #[test]
    fn a_secret_is_refused_with_what_to_do_instead() {
        let said = refused(&format!("{GOOD}Password = \"x\"\n"));
        assert!(
            said.contains("line 5") && said.contains("no secrets") && said.contains("key-file"),
            "{said}"
        );
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert!(refused(&GOOD.replace("[big]", "[bog]")).contains("did you mean bog?"));
        assert!(refused(&GOOD.replace("power.example", "-oProxyCommand=x")).contains("no host"));
        assert!(refused(&GOOD.replace("/var/tmp/pb", "pb")).contains("absolute path"));
        assert!(refused(&GOOD.replace("/var/tmp/pb", "/")).contains("absolute path"));
        assert!(refused(&format!("{GOOD}key-file = \"/nonexistent/key\"\n")).contains("/nonexistent/key"));
        assert!(refused(&GOOD.replace("ppc64le", "ppc64el")).contains("ppc64le"));
        assert!(refused(&format!("{GOOD}port = 70000\n")).contains("line 5"));
    }
}
