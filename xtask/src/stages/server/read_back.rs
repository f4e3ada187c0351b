//! What a server that is ready says of itself, and what its machine says of it.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use model::facts::FolderFacts;
use model::record::ServerFacts;

use super::settings::{differences, requested};
use super::starter::{Starter, client};
use super::{io_method, watch};
use crate::failure::{Failure, Kind};
use crate::machines::Call;
use crate::stages::bundle::BENCH;
use crate::{placement, process};

impl Starter<'_> {
    /// Asks the server, through the bundle's own client, for what it really runs with.
    pub fn read_back(&self, ready: Duration, data_written_by: Option<String>) -> Result<ServerFacts> {
        let asked = requested(&self.arguments());
        let mut names: Vec<&str> = self.table.settings.iter().map(String::as_str).collect();
        names.extend(asked.keys().map(String::as_str));
        let list = names.iter().map(|name| format!("'{name}'")).collect::<Vec<_>>().join(",");
        let query = format!("SHOW GLOBAL VARIABLES WHERE Variable_name IN ({list})");
        let settings = watch::rows(&self.query(&query)?);
        let different = differences(&asked, &settings);
        if !different.is_empty() {
            let what = format!(
                "the server does not run with what it was asked for:\n{}",
                process::indented(&different.join("\n"))
            );
            return Err(Failure::new(Kind::VerificationFailed, what)
                .log(self.log)
                .next(match self.plan.more_arguments {
                    [] => format!("mend `arguments` in xtask/products/{}.toml", self.plan.product.name),
                    _ => "ask with --server-arg for the value that it shows, or leave it out".into(),
                })
                .into());
        }
        let log = fs::read_to_string(self.log).unwrap_or_default();
        let means = io_method::means(&log, &settings);
        Ok(ServerFacts {
            io_method: means.io_method,
            io_fallback: means.fell_back,
            crc32_method: means.crc32_method,
            data_folder: None,
            allowed_cpus: None,
            memory_policy: None,
            version: settings.get("version").cloned().unwrap_or_default(),
            ready_s: ready.as_secs_f64(),
            data_written_by,
            warnings: watch::warnings(&log, &self.table.usual_warnings),
            settings,
        })
    }

    /// Its process id, by its own word: what stands for it on this host may be another process.
    pub fn pid(&self) -> Result<u32> {
        let file = self.place.data().join("pid").display().to_string();
        let text = self.ask(&Call::shell("cat \"$1\"", &[file]), "sh", "")?;
        text.trim().parse().with_context(|| format!("the server's pid file says `{}`", text.trim()))
    }

    /// The machine's own word for where the server runs; a difference from what was asked for fails the run.
    pub fn read_back_placement(&self, pid: u32, facts: &mut ServerFacts) -> Result<()> {
        let status = self.ask(&Call::shell(r#"cat "/proc/$1/status""#, &[pid.to_string()]), "sh", "")?;
        // Kernels without NUMA have no such file; the first line is enough.
        let first = Call::shell(r#"head -n 1 "/proc/$1/numa_maps" 2>/dev/null || true"#, &[pid.to_string()]);
        let numa_maps = Some(self.ask(&first, "sh", "")?).filter(|text| !text.is_empty());
        let wrong = self.plan.placement.differences(&status, numa_maps.as_deref());
        if !wrong.is_empty() {
            let what = format!(
                "the server is not where it was asked to be:\n{}",
                process::indented(&wrong.join("\n"))
            );
            return Err(Failure::new(Kind::VerificationFailed, what).log(self.log).into());
        }
        facts.allowed_cpus = placement::allowed_cpus(&status);
        facts.memory_policy = numa_maps.as_deref().and_then(placement::memory_policy);
        Ok(())
    }

    /// What I/O the data folder bears.
    pub fn probe_folder(&self) -> Result<FolderFacts> {
        let folder = self.place.data().display().to_string();
        let call = Call::of(self.plan.deployed, BENCH).args(["probe-io".to_string(), "--in".into(), folder]);
        let text = self.ask(&call, "the bench binary", "")?;
        serde_json::from_str(text.trim())
            .with_context(|| format!("not the facts of a folder: {}", text.trim()))
    }

    /// Asks the server through the bundle's own client.
    pub fn query(&self, query: &str) -> Result<String> {
        let call = client(self.plan.deployed, &self.table.client, self.place.socket(), self.account);
        let call = call.args(["--batch", "--skip-column-names", "--execute", query]);
        self.ask(&call, "the bundle's client", "")
    }
}
