//! The steps of a cluster's start: configuration, processes, readiness; and of its end.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use model::record::ClusterFacts;
use rustix::process::Signal;

use super::diagnose::{self, ErrorLogs, When};
use super::node::Node;
use super::{Folders, Plan, ended, last_words, read_back, tail};
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::machines::{Call, limit};
use crate::placement::{Allowed, Flags, Placement};
use crate::process::{self, Guarded, OnOurDeath};
use crate::tables::product::Cluster as Table;
use crate::tables::topology::{self, Role};
use crate::{interrupt, machines, relay, ui};

/// How long a management node may take until it answers, on hardware.
const MANAGEMENT: Duration = Duration::from_secs(15);
/// How long all data nodes may take to start, on hardware.
const STARTED: Duration = Duration::from_secs(60);
/// How long an orderly shutdown may take on hardware: data nodes wait for a global checkpoint.
const SHUTDOWN: Duration = Duration::from_secs(20);
/// How long what did not end in order gets after SIGTERM.
const TERMINATED: Duration = Duration::from_secs(3);
/// How often logs are looked at.
const LOOK: Duration = Duration::from_millis(50);
/// How long a question may take on hardware.
const ASKED: Duration = Duration::from_secs(15);
/// The keys that bind a node, as messages name them.
const FLAGS: Flags = Flags { cpus: "`cpus`", numa_node: "`numa-node`" };
/// Leaves the process id of what it becomes in a file: what stands for it on this host may be another process.
const WITH_PID: &str = r#"echo $$ >"$1/pid" || exit 1; shift; exec "$@""#;
/// Writes a file.
const WRITE: &str = r#"umask 077; printf '%s' "$2" >"$1""#;

/// A cluster that is being started.
pub struct Starter<'a> {
    /// Where logs go.
    pub home: &'a Home,
    /// The programs.
    pub table: &'a Table,
    /// From what.
    pub plan: &'a Plan<'a>,
    /// In which folders.
    pub folders: &'a Folders,
    /// What is asked of machines goes there.
    pub log: &'a std::path::Path,
    /// Names the logs.
    pub log_name: &'a str,
    /// Of the slowest machine.
    pub slowdown: f64,
}

impl Starter<'_> {
    /// Starts all nodes, waits for them, reads back what they run with.
    pub fn run(&self) -> Result<(Vec<Node>, ClusterFacts, ErrorLogs)> {
        let (topology, at) = (self.plan.topology, self.folders.at());
        let ini = topology.config_ini(at, self.slowdown);
        let placements = self.placements()?;
        let mut errors = ErrorLogs::of(self.plan, self.folders, self.log);
        let connect = topology.connect_string(at);
        let begun = Instant::now();
        let mut nodes = Vec::new();
        for role in [Role::Management, Role::Data] {
            for (_, node) in topology.nodes().filter(|(known, _)| *known == role) {
                let placement = placements.iter().find(|(id, _)| *id == node.id()).map(|(_, p)| p.clone());
                nodes.push(self.spawn(role, node, &ini, &connect, placement.unwrap_or_default())?);
            }
            // Data nodes that find no management node wait for seconds before they ask again.
            let ready = if role == Role::Management { Ready::Answers } else { Ready::Started };
            self.wait(&mut nodes, &mut errors, ready)?;
        }
        let mut facts = ClusterFacts {
            topology: topology.name.clone(),
            replicas: *topology.replicas.get_ref(),
            connect_string: connect,
            config_ini: ini,
            started_s: begun.elapsed().as_secs_f64(),
            data_written_by: self.folders.written_by(),
            ..ClusterFacts::default()
        };
        if let Err(error) = read_back::read(self, &nodes, &placements, &mut facts) {
            // A node that has ended meanwhile explains more than what it did not answer.
            self.none_ended(&mut nodes, &mut errors)?;
            return Err(error);
        }
        Ok((nodes, facts, errors))
    }

    /// What each node is bound to, held against what its machine allows.
    fn placements(&self) -> Result<Vec<(u32, Placement)>> {
        let mut all = Vec::new();
        for (index, machine) in self.plan.machines.iter().enumerate() {
            let facts = machines::facts(machine.link, machine.deployed, self.log)?;
            let allowed = Allowed::of(&facts);
            for (_, node) in self.plan.topology.nodes() {
                if self.plan.machine_of(node) != Some(index) {
                    continue;
                }
                let asked = Placement {
                    cpus: node.cpus.as_ref().map(|cpus| cpus.get_ref().clone()),
                    numa_node: topology::numa_node(node, &facts, &machine.name)?,
                };
                let placement = asked.on(&machine.name, FLAGS, &allowed)?;
                if machine.link.is_here() {
                    placement.check_tools()?;
                }
                all.push((node.id(), placement));
            }
        }
        Ok(all)
    }

    fn spawn(
        &self,
        role: Role,
        node: &topology::Node,
        ini: &str,
        connect: &str,
        placement: Placement,
    ) -> Result<Node> {
        let index = self.plan.machine_of(node).context("a node without a machine")?;
        let machine = &self.plan.machines[index];
        let at = self.folders.of(node.id())?;
        let call = match role {
            Role::Management => {
                let file = format!("{}/config.ini", at.folder);
                self.ask(index, &Call::shell(WRITE, &[file.clone(), ini.to_string()]))?;
                Call::of(machine.deployed, &self.table.management).args([
                    "--no-defaults".to_string(),
                    "--nodaemon".into(),
                    // The folder is empty, so this changes nothing; it says what is meant.
                    "--initial".into(),
                    format!("--config-file={file}"),
                    format!("--configdir={}/config", at.folder),
                    format!("--ndb-nodeid={}", node.id()),
                    format!("--bind-address={}", at.host),
                ])
            }
            // In the foreground, so that no angel stands between us and it: what we end is the node itself.
            _ => Call::of(machine.deployed, &self.table.data).args([
                "--no-defaults".to_string(),
                "--nodaemon".into(),
                "--foreground".into(),
                format!("--ndb-nodeid={}", node.id()),
                format!("--ndb-connectstring={connect}"),
                "--connect-retry-delay=1".into(),
            ]),
        };
        let mut words = vec![at.folder.clone()];
        words.extend(machine.link.line(&call));
        let mut wrapped = Call::shell(WITH_PID, &words);
        wrapped.folder = Some(at.folder.clone().into());
        wrapped.placement = placement;
        let log = self.home.log(&format!("cluster-{}-node-{}", self.log_name, node.id()))?;
        std::fs::write(&log, "")?;
        let name = format!("{} node {}", role.name(), node.id());
        let process = spawn(&name, machine.link.command(&wrapped), &log)?;
        Ok(Node { id: node.id(), role, machine: index, process, log, end: None })
    }

    /// Waits until the nodes are as far as `ready` says.
    fn wait(&self, nodes: &mut [Node], errors: &mut ErrorLogs, ready: Ready) -> Result<()> {
        let base = if ready == Ready::Answers { MANAGEMENT } else { STARTED };
        let slowest =
            self.plan.machines.iter().max_by(|a, b| a.link.slowdown().total_cmp(&b.link.slowdown()));
        let allowed = slowest.map_or(base, |machine| limit(machine.link, base));
        let until = Instant::now() + allowed;
        loop {
            interrupt::check()?;
            self.none_ended(nodes, errors)?;
            let waiting: Vec<&Node> = nodes.iter().filter(|node| !is_ready(node, ready)).collect();
            let Some(first) = waiting.first() else { return Ok(()) };
            if Instant::now() > until {
                let names: Vec<String> = waiting.iter().map(|node| node.name()).collect();
                let what = format!(
                    "not ready within {} ({} x {:.1}): {}\n{}",
                    ui::duration(allowed),
                    ui::duration(base),
                    self.slowdown,
                    names.join(", "),
                    tail(&first.log, 5)
                );
                return Err(Failure::new(Kind::ServerNotReady, what)
                    .log(&first.log)
                    .next("look for what else uses the CPUs; then run it again")
                    .into());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Fails where a node has ended.
    fn none_ended(&self, nodes: &mut [Node], errors: &mut ErrorLogs) -> Result<()> {
        let Some((index, status)) = ended(nodes)? else { return Ok(()) };
        if let Some(failure) = relay::failure(status, &nodes[index].log) {
            return Err(failure.into());
        }
        last_words(nodes)?;
        Err(diagnose::failure(nodes, errors, When::Starting)?.into())
    }

    /// Runs a short program on a machine and returns what it said.
    pub fn ask(&self, machine: usize, call: &Call) -> Result<String> {
        let link = self.plan.machines[machine].link;
        let name = call.program.file_name().unwrap_or_default().to_string_lossy().into_owned();
        process::asked(&name, link.command(call), limit(link, ASKED), self.log)
    }

    /// The management client's answer.
    pub fn manage(&self, machine: usize, connect: &str, line: &str) -> Result<String> {
        self.ask(machine, &self.client(machine, connect, line))
    }

    fn client(&self, machine: usize, connect: &str, line: &str) -> Call {
        Call::of(self.plan.machines[machine].deployed, &self.table.client).args([
            "--no-defaults".to_string(),
            format!("--ndb-connectstring={connect}"),
            "--try-reconnect=1".into(),
            format!("--execute={line}"),
        ])
    }

    /// How the cluster is stopped.
    pub fn stop(&self, facts: &ClusterFacts) -> Stop {
        let first = self.plan.topology.management.first().map(|node| node.get_ref());
        let machine = first.and_then(|node| self.plan.machine_of(node)).unwrap_or(0);
        let call = self.client(machine, &facts.connect_string, "shutdown");
        Stop {
            command: self.plan.machines[machine].link.command(&call),
            limit: SHUTDOWN.mul_f64(self.slowdown),
            log: self.log.to_path_buf(),
        }
    }
}

/// How far nodes are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ready {
    /// Management nodes answer.
    Answers,
    /// Data nodes have started.
    Started,
}

fn is_ready(node: &Node, ready: Ready) -> bool {
    let mark = match (ready, node.role) {
        // Each of them says so; that the change is complete says only the one that began it.
        (Ready::Answers, Role::Management) => "Configuration 1 commited",
        (Ready::Started, Role::Data) => "[ndbd] INFO     -- Started (",
        _ => return true,
    };
    process::tail(&node.log, 200).contains(mark)
}

fn spawn(name: &str, command: Command, log: &std::path::Path) -> Result<Guarded> {
    let mut file = process::append(log)?;
    std::io::Write::write_all(&mut file, format!("$ {}\n", process::shown(&command)).as_bytes())?;
    process::spawn_with(
        name,
        command,
        OnOurDeath::Kill,
        [Stdio::null(), file.try_clone()?.into(), file.into()],
    )
}

/// How a cluster is stopped.
pub struct Stop {
    command: Command,
    limit: Duration,
    log: std::path::PathBuf,
}

impl Stop {
    /// The management client's `shutdown`; SIGTERM for what is still there then; SIGKILL at last.
    pub fn run(&mut self, nodes: &mut [Node]) -> Result<()> {
        let command = std::mem::replace(&mut self.command, Command::new("true"));
        let begun = Instant::now();
        // Waited for although Ctrl-C came: that is why it is asked.
        let mut client = spawn("the management client", command, &self.log)?;
        let asked = client.wait(self.limit)?;
        let until = if asked.is_some_and(|status| status.success()) { begun + self.limit } else { begun };
        let data = |node: &&mut Node| node.role == Role::Data;
        let mut late = Vec::new();
        for node in nodes.iter_mut().filter(data) {
            let left = until.saturating_duration_since(Instant::now());
            match node.process.wait(left.max(process::TICK))? {
                Some(status) if status.success() => {}
                Some(status) => late.push((node.name(), process::ending(status), node.log.clone())),
                None => late.push((node.name(), "was still there".into(), node.log.clone())),
            }
        }
        // The management nodes have nothing left to do.
        for node in nodes.iter_mut().rev() {
            node.process.signal(Signal::TERM);
        }
        for node in nodes.iter_mut().rev() {
            node.process.stop(TERMINATED)?;
        }
        let Some((name, how, log)) = late.into_iter().next() else { return Ok(()) };
        let what = format!("{name} did not shut down in order: {how}\n{}", tail(&log, 8));
        Err(Failure::new(Kind::ServerLost, what).log(log).next("read the log's last lines").into())
    }
}
