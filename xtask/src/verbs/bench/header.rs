//! What stands at a record's beginning and end: where the numbers come from, and how it ended.

use model::record::{Header, Outcome, PlacementFacts, RecordedError, SCHEMA_VERSION};
use xshell::{Shell, cmd};

use super::client::Generator;
use super::execute::Execution;
use crate::failure::{Failure, Kind, kind_of};
use crate::home::repository;
use crate::stages::bundle::{BENCH, Bundle};
use crate::stages::record::{self, Writer};
use crate::{host, process};

impl Execution<'_> {
    /// The record's first line.
    pub(super) fn header(&self) -> Header {
        let args = self.args();
        let manifest = self.bundle.map(Bundle::manifest);
        let bundle = manifest.filter(|_| !args.null).map(|manifest| manifest.facts.clone());
        let what =
            bundle.as_ref().map_or("null".into(), |b| format!("{}-{}-{}", b.product, b.release, b.origin));
        let target = &self.pipeline.target.name;
        let sha256 = match self.common.generator {
            Generator::Host(binary) => binary.sha256().to_string(),
            Generator::Target => manifest.and_then(|m| m.files.get(BENCH).cloned()).unwrap_or_default(),
            Generator::Away(away) => away.sha256(),
        };
        Header {
            schema_version: SCHEMA_VERSION,
            id: record::new_id(&[target, &what, &self.machine]),
            started_at: record::now(),
            portbench_version: env!("CARGO_PKG_VERSION").into(),
            portbench_commit: commit(),
            bench_binary_sha256: sha256,
            command: std::env::args().skip(1).collect(),
            target: target.clone(),
            suite: self.plan.suite.clone(),
            bundle,
            machine: host::facts(&self.machine),
            placement: PlacementFacts {
                server_cpus: args.start.server_cpus.clone(),
                client_cpus: args.client_cpus.clone(),
                numa_node: args.start.numa_node,
            },
        }
    }
}

/// The commit of the checkout, with `-dirty` where it was changed since; `None` outside of git.
fn commit() -> Option<String> {
    let (sh, folder) = (Shell::new().ok()?, repository());
    let text =
        process::output(cmd!(sh, "git -C {folder} describe --always --dirty --abbrev=12 --match=")).ok()?;
    Some(text.trim().to_string())
}

/// The record's name, which its logs share.
pub fn file_stem(record: &Writer) -> String {
    record.path().file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// How an execution ended that failed.
pub fn recorded_error(error: &anyhow::Error) -> (Outcome, Option<RecordedError>) {
    let kind = kind_of(error);
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    let recorded = RecordedError {
        kind: kind.map_or("bug".into(), Kind::name),
        detail: failure.map_or_else(|| format!("{error:#}"), |failure| failure.what.clone()),
        log: failure.and_then(|failure| failure.log.as_ref()).map(|log| log.display().to_string()),
    };
    let outcome = if kind == Some(Kind::Interrupted) { Outcome::Interrupted } else { Outcome::Failed };
    (outcome, Some(recorded))
}
