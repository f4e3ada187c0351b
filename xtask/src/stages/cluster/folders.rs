//! The folders of a cluster's nodes: one below each machine's run folder, with one of its own for each node; or one of
//! the user's, which must be of the same topology and target.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::Plan;
use crate::failure::{Failure, Kind};
use crate::machines::{Call, Elsewhere, limit};
use crate::process;
use crate::stages::server::place::Place;
use crate::tables::topology::{At, Node};

/// How long a question about a folder may take, on hardware.
const ASKED: Duration = Duration::from_secs(20);
/// Says whose data is in a folder, and touches nothing.
const WHOSE: &str = r#"[ -d "$1" ] || exit 0
if [ -e "$1/portbench.cluster" ]; then cat "$1/portbench.cluster"
elif [ -n "$(ls -A "$1")" ]; then echo foreign; fi"#;
/// Stamps it, makes the nodes' folders, and drops what must not outlive a start: the management nodes' copies of the
/// configuration, which would win over a changed one.
const MAKE: &str = r#"umask 077; cd "$1" || exit 1; stamp=$2; shift 2
printf '%s\n' "$stamp" >portbench.cluster || exit 1
for node; do mkdir -p "$node" && rm -rf "$node/config" "$node"/ndb_*_error.log && mkdir "$node/config" || exit 1; done"#;

/// Folders and ports on every machine. Dropped, they are removed.
pub struct Folders {
    // Held for what dropping them does.
    _places: Vec<Place>,
    at: Vec<At>,
    written_by: Option<String>,
}

impl Folders {
    /// Makes them.
    pub fn make(plan: &Plan, log: &Path) -> Result<Self> {
        let nodes = located(plan)?;
        let mut written_by = None;
        for machine in 0..plan.machines.len() {
            if let Some(folder) = plan.data {
                written_by = fits(plan, machine, folder, log)?.or(written_by);
            }
        }
        let (mut places, mut at) = (Vec::new(), Vec::new());
        for (index, machine) in plan.machines.iter().enumerate() {
            let here: Vec<&Node> =
                nodes.iter().filter(|(_, at)| *at == index).map(|(node, _)| *node).collect();
            let (link, deployed) = (machine.link, machine.deployed);
            let place = Place::with_ports(link, deployed, log, plan.data, here.len())?;
            let words = [place.data().display().to_string(), stamp(plan, &deployed.manifest.target)];
            let words: Vec<String> =
                words.into_iter().chain(here.iter().map(|node| format!("node-{}", node.id()))).collect();
            let call = Call::shell(MAKE, &words);
            process::asked("sh", link.command(&call), limit(link, ASKED), log)?;
            for (node, free) in here.iter().zip(place.ports()) {
                let port = node.port.as_ref().map_or(free, |port| *port.get_ref());
                at.push(At {
                    id: node.id(),
                    host: host(plan, index, port)?,
                    port: port.to_string(),
                    folder: place.data().join(format!("node-{}", node.id())).display().to_string(),
                });
            }
            places.push(place);
        }
        Ok(Folders { _places: places, at, written_by })
    }

    /// Where each node is.
    pub fn at(&self) -> &[At] {
        &self.at
    }

    /// Where a node is.
    pub fn of(&self, id: u32) -> Result<&At> {
        self.at.iter().find(|at| at.id == id).with_context(|| format!("node {id} has no folder"))
    }

    /// The target whose nodes made the folders, where they were there before.
    pub fn written_by(&self) -> Option<String> {
        self.written_by.clone()
    }
}

/// Each node with its machine.
fn located<'a>(plan: &Plan<'a>) -> Result<Vec<(&'a Node, usize)>> {
    let mut all = Vec::new();
    for (_, node) in plan.topology.nodes() {
        let machine = plan.machine_of(node).with_context(|| {
            format!("node {} is on {}, which is not up", node.id(), node.machine().unwrap_or_default())
        })?;
        all.push((node, machine));
    }
    Ok(all)
}

/// The address of a node, as the other nodes reach it.
fn host(plan: &Plan, machine: usize, port: u16) -> Result<IpAddr> {
    let here = plan.machines.iter().all(|machine| machine.link.is_here());
    if here || plan.machines.len() == 1 {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    Ok(plan.machines[machine].link.reach(port, &Elsewhere::Machine)?.connect.ip())
}

fn stamp(plan: &Plan, target: &str) -> String {
    format!("{target}; {}", plan.topology.shape())
}

/// Whether a folder of the user's is one of the same topology and target: the target, or nothing where it is empty.
fn fits(plan: &Plan, machine: usize, folder: &Path, log: &Path) -> Result<Option<String>> {
    let machine = &plan.machines[machine];
    let call = Call::shell(WHOSE, &[folder.display().to_string()]);
    let said = process::asked("sh", machine.link.command(&call), limit(machine.link, ASKED), log)?;
    let (said, target) = (said.trim(), &machine.deployed.manifest.target);
    let own = stamp(plan, target);
    let what = match said {
        "" => return Ok(None),
        said if said == own => return Ok(Some(target.clone())),
        "foreign" => format!("{} holds files that portbench did not make", folder.display()),
        other => format!("{} is the data of another cluster ({other}), this one is {own}", folder.display()),
    };
    Err(Failure::new(Kind::Usage, format!("{what}: they are not touched"))
        .next("name another folder with --data")
        .into())
}
