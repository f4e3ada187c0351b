//! The names of machines, as `--on` has them.

use std::fmt;
use std::str::FromStr;

use crate::failure::nearest;

/// A machine, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// This host.
    Local,
    /// This host, through an emulator of programs.
    QemuUser,
    /// A guest, with a kernel of the target.
    QemuSystem,
    /// A machine of `machines.toml`.
    Ssh(String),
}

const PLAIN: [(&str, Name); 3] =
    [("local", Name::Local), ("qemu-user", Name::QemuUser), ("qemu-system", Name::QemuSystem)];
const SSH: &str = "ssh:";

impl Name {
    /// Whether its programs are processes of this host, natively or emulated.
    pub fn is_this_host(&self) -> bool {
        matches!(self, Name::Local | Name::QemuUser)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, name)) = PLAIN.into_iter().find(|(name, _)| *name == text) {
            return Ok(name);
        }
        if let Some(name) = text.strip_prefix(SSH) {
            return match name.is_empty() {
                true => Err("`ssh:` needs the name of a machine in machines.toml behind it".into()),
                false => Ok(Name::Ssh(name.into())),
            };
        }
        let known: Vec<String> =
            PLAIN.iter().map(|(name, _)| name.to_string()).chain(["ssh:NAME".to_string()]).collect();
        let near = nearest(text, &known);
        let hint =
            if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
        Err(format!("unknown machine `{text}`{hint} (choose one of: {})", known.join(", ")))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Ssh(name) => write!(f, "{SSH}{name}"),
            plain => {
                f.write_str(PLAIN.iter().find(|(_, known)| known == plain).map_or("?", |(name, _)| name))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["local", "qemu-user", "qemu-system", "ssh:power8.example"] {
            assert_eq!(name.parse::<Name>().unwrap().to_string(), name);
        }
        assert!("qemu_user".parse::<Name>().unwrap_err().contains("did you mean qemu-user"));
        assert!("ssh:".parse::<Name>().unwrap_err().contains("machines.toml"));
    }
}
