//! A server's data folder: made before its first start, kept where it is the user's.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use model::request::Account;

use super::starter::{Starter, input};
use super::watch;
use crate::failure::{Failure, Kind};
use crate::machines::{Call, limit};
use crate::{process, relay, ui};

/// How long making a data folder may take on hardware.
const MADE: Duration = Duration::from_secs(60);

/// Makes a server's folders and says whose data is there: nothing where it is to be made, also after an attempt that
/// was killed before its stamp.
const PREPARE: &str = r#"umask 077; cd "$1" || exit 1
[ -e portbench.making ] && [ ! -e portbench.target ] && rm -rf data
mkdir -p data tmp && cat >init.sql || exit 1
if [ -e portbench.target ]; then cat portbench.target
elif [ -n "$(ls -A data)" ]; then echo foreign
else : >portbench.making; fi"#;

impl Starter<'_> {
    /// Makes the folders, the file of accounts, and, where there is none yet, the server's system tables.
    ///
    /// A folder that was used before keeps its data; the name of the target that made it is returned.
    pub fn prepare(&self) -> Result<Option<String>> {
        let folder = self.place.data().display().to_string();
        let accounts = accounts(self.account, self.plan.client.is_some());
        let found = self.ask(&Call::shell(PREPARE, std::slice::from_ref(&folder)), "sh", &accounts)?;
        let manifest = &self.plan.deployed.manifest;
        match found.trim() {
            "" => {
                ui::step("server", &format!("making a data folder for {}", manifest.facts.product));
                self.make()?;
                let words = [folder, manifest.target.clone()];
                self.ask(&Call::shell("cd \"$1\" && echo \"$2\" >portbench.target", &words), "sh", "")?;
                Ok(None)
            }
            "foreign" => {
                let what =
                    format!("{folder}/data holds files that portbench did not make: they are not touched");
                Err(Failure::new(Kind::Usage, what).next("name another folder with --data").into())
            }
            target => {
                ui::step("server", &format!("using the data in {folder}, made for {target}"));
                Ok(Some(target.to_string()))
            }
        }
    }

    /// Lets the server make its system tables, by itself or from the SQL files of its release.
    fn make(&self) -> Result<()> {
        // Without what makes it a node of a cluster, which it is not yet.
        let call = self.call(&self.own_arguments());
        let (call, text) = match &self.table.initialize {
            Some(argument) => (call.args([argument]), String::new()),
            None => {
                let call = call.args(["--bootstrap", "--max-allowed-packet=8M", "--net-buffer-length=16K"]);
                (call, self.bootstrap()?)
            }
        };
        let mut process = self.spawn("the making of a data folder", &call, input(&text)?.into())?;
        match watch::end(&mut process, limit(self.plan.link, MADE))? {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(relay::failure(status, self.log)
                .unwrap_or_else(|| self.died(&format!("making its data folder: {}", process::ending(status))))
                .into()),
            None => Err(self.not_ready("its data folder was not made", MADE).into()),
        }
    }

    /// The statements that make system tables.
    fn bootstrap(&self) -> Result<String> {
        let mut text = self.table.bootstrap_first.join("\n") + "\n";
        for file in &self.table.bootstrap {
            let path = self.plan.deployed.copy.join(file);
            let sql = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let without = self.table.bootstrap_without.as_deref();
            for line in sql.lines().filter(|line| without.is_none_or(|part| !line.contains(part))) {
                text.push_str(line);
                text.push('\n');
            }
        }
        Ok(text)
    }
}

/// What runs before the first connection: our account, and no other way in.
fn accounts(account: &Account, from_elsewhere: bool) -> String {
    let (user, password) = (&account.user, &account.password);
    let hosts: &[&str] =
        if from_elsewhere { &["localhost", "127.0.0.1", "%"] } else { &["localhost", "127.0.0.1"] };
    let mut text = String::new();
    for host in hosts {
        // A data folder that was used before knows the account with another password.
        text += &format!("CREATE USER IF NOT EXISTS '{user}'@'{host}';\n");
        text += &format!("ALTER USER '{user}'@'{host}' IDENTIFIED BY '{password}';\n");
        text += &format!("GRANT ALL PRIVILEGES ON *.* TO '{user}'@'{host}';\n");
    }
    text + "ALTER USER 'root'@'localhost' ACCOUNT LOCK;\n"
}
