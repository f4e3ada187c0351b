//! What `deploy`, `serve` and `shell` share: a bundle on a machine, and a server of it.

use std::path::PathBuf;

use anyhow::Result;

use super::common::One;
use crate::failure::{Failure, Kind};
use crate::home::Home;
use crate::machines::name::Name;
use crate::machines::{self, Choices, Elsewhere, Link};
use crate::pipeline::{From, Pipeline};
use crate::placement::Placement;
use crate::stages::bundle::Bundle;
use crate::stages::deployment::Deployed;
use crate::stages::server::{self, Server};
use crate::stages::toolchain::Toolchain;
use crate::ui;
use model::CpuList;

/// A bundle and a machine.
#[derive(clap::Args)]
pub struct Stand {
    #[command(flatten)]
    one: One,
    /// The machine: local, qemu-user, qemu-system or ssh:NAME.
    #[arg(long, value_name = "MACHINE", default_value = "qemu-user")]
    pub on: Name,
    #[command(flatten)]
    choices: Choices,
    /// Where the programs come from.
    #[arg(long, value_enum, default_value = "source")]
    from: From,
}

/// How a server is started.
#[derive(clap::Args)]
pub struct Start {
    /// The server's TCP port; left out: a free one.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// A data folder on the machine that is made if it is empty, used as it is otherwise, and kept; not on
    /// qemu-system, whose disks go with the guest.
    #[arg(long, value_name = "FOLDER")]
    pub data: Option<PathBuf>,
    /// A further argument of the server, e.g. --server-arg=--innodb-buffer-pool-size=1073741824; read back after start.
    #[arg(long = "server-arg", value_name = "ARGUMENT")]
    pub server_arguments: Vec<String>,
    /// CPUs that the server is bound to, e.g. 0-3,8.
    #[arg(long, value_name = "LIST")]
    pub server_cpus: Option<CpuList>,
    /// NUMA node that the server's memory is bound to, and its CPUs unless --server-cpus names some.
    #[arg(long, value_name = "NODE")]
    pub numa_node: Option<u32>,
}

impl Start {
    /// The server's data folder; an SQL node has its own beside those of the cluster's other nodes.
    pub fn data_of(&self, cluster: Option<&str>) -> Option<PathBuf> {
        self.data.as_ref().map(|folder| if cluster.is_some() { folder.join("sql") } else { folder.clone() })
    }

    /// Refuses what is of an SQL server alone, which a cluster without SQL nodes has not.
    pub fn of_cluster(&self) -> Result<()> {
        let given = [
            ("--port", self.port.is_some()),
            ("--server-arg", !self.server_arguments.is_empty()),
            ("--server-cpus", self.server_cpus.is_some()),
            ("--numa-node", self.numa_node.is_some()),
        ];
        let Some((flag, _)) = given.into_iter().find(|(_, given)| *given) else { return Ok(()) };
        Err(Failure::new(Kind::Usage, format!("{flag} is for one server, not for the nodes of a cluster"))
            .next("say it in a topology: copy one of xtask/topologies, and name it with --topology")
            .into())
    }
}

/// A bundle on a machine that is up.
pub struct Standing {
    /// The tables.
    pub pipeline: Pipeline,
    /// Where it stands.
    pub deployed: Deployed,
    /// What runs programs there.
    pub link: Box<dyn Link>,
}

impl Standing {
    /// What a server is started from.
    pub fn parts(&self) -> (&Pipeline, &Deployed, &dyn Link) {
        (&self.pipeline, &self.deployed, &*self.link)
    }
}

impl Stand {
    /// The tables.
    pub fn pipeline(&self) -> Result<Pipeline> {
        self.one.pipeline()
    }

    /// Which machines there are.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// Builds what these machines run.
    pub fn build(&self, names: &[Name]) -> Result<(Pipeline, Toolchain, Bundle)> {
        let pipeline = self.one.pipeline()?;
        for name in names {
            machines::refuse_impossible(name, &pipeline.target, &self.choices)?;
            machines::fits(name, &pipeline.home, &pipeline.target, &self.choices)?;
        }
        let toolchain = pipeline.toolchain(&[self.from])?;
        let bundle = pipeline.bundle(&toolchain, self.from)?;
        Ok((pipeline, toolchain, bundle))
    }

    /// Builds and deploys.
    pub fn deploy<T>(
        &self,
        then: impl FnOnce(Pipeline, Deployed, &dyn machines::Machine) -> Result<T>,
    ) -> Result<T> {
        let (pipeline, toolchain, bundle) = self.build(std::slice::from_ref(&self.on))?;
        let home: Home = pipeline.home.clone();
        let machine = machines::open(&self.on, &home, &toolchain, &self.choices)?;
        ui::step("deploy", &format!("{} on {}", bundle.manifest().label(), self.on));
        let deployed = machine.deploy(&bundle)?;
        then(pipeline, deployed, &*machine)
    }

    /// Builds, deploys and brings the machine up.
    pub fn up(&self) -> Result<Standing> {
        self.deploy(|pipeline, deployed, machine| {
            let link = machine.connect(&deployed)?;
            Ok(Standing { pipeline, deployed, link })
        })
    }

    /// Starts a server that clients on this host reach; `cluster`: what it joins as an SQL node.
    pub fn serve(
        &self,
        (pipeline, deployed, link): (&Pipeline, &Deployed, &dyn Link),
        start: &Start,
        cluster: Option<&str>,
        name: &str,
    ) -> Result<Server> {
        if start.data.is_some() {
            machines::keeps_data(&self.on)?;
        }
        let facts = machines::facts(link, deployed, &pipeline.home.log(name)?)?;
        let data = start.data_of(cluster);
        let placement = Placement { cpus: start.server_cpus.clone(), numa_node: start.numa_node };
        let placement = machines::place_server(&placement, link, &self.on.to_string(), &facts)?;
        let plan = server::Plan {
            machine: &self.on.to_string(),
            link,
            deployed,
            product: &pipeline.product,
            cluster,
            more_arguments: &start.server_arguments,
            port: start.port,
            placement: &placement,
            client: (!link.is_here()).then_some(Elsewhere::Host),
            data: data.as_deref(),
        };
        server::start(&pipeline.home, &plan, &format!("{name}-{}", std::process::id()))
    }
}
