//! What verbs share that bring up a cluster: the machines of its topology.

use std::path::Path;

use anyhow::Result;

use crate::home::Home;
use crate::machines::name::Name;
use crate::machines::{self, Choices, Link};
use crate::pipeline::Pipeline;
use crate::stages::bundle::Bundle;
use crate::stages::cluster::{Place, Plan};
use crate::stages::deployment::Deployed;
use crate::stages::toolchain::Toolchain;
use crate::tables::product::Product;
use crate::tables::target::Target;
use crate::tables::topology::{Around, Topology};
use crate::ui;

/// Machines that are up, the one that `--on` names first.
pub struct Machines {
    all: Vec<(String, Deployed, Box<dyn Link>)>,
}

/// The machines of a topology, the one that `--on` names first where a node needs it.
pub fn names(topology: &Topology, on: &Name) -> Result<Vec<Name>> {
    let mut names = topology.machines()?;
    names.retain(|name| name != on);
    if topology.needs_default_machine() || names.len() < topology.machines()?.len() {
        names.insert(0, on.clone());
    }
    Ok(names)
}

/// Refuses a topology on machines that can never run the target's programs.
pub fn possible(topology: &Topology, on: &Name, target: &Target, choices: &Choices) -> Result<()> {
    names(topology, on)?.iter().try_for_each(|name| machines::refuse_impossible(name, target, choices))
}

/// What is known of where a topology is to run before anything is built: byte orders, this host, and guests.
pub fn around(topology: &Topology, on: &Name, target: &Target, choices: &Choices) -> Result<Around> {
    let mut around = Around { on: Some(on.clone()), ..Around::default() };
    for name in names(topology, on)? {
        let its = match &name {
            Name::Ssh(_) => Target::load(&machines::target_of(&name, choices)?)?,
            _ => target.clone(),
        };
        around.byte_orders.insert(name.to_string(), (its.byte_order, its.name));
        if let Some(facts) = machines::foreseen(&name, target, choices) {
            around.facts.insert(name.to_string(), facts);
        }
    }
    Ok(around)
}

impl Machines {
    /// Deploys the bundle on every machine of a topology, brings them up, and checks the topology once more against
    /// what they say of themselves.
    pub fn up(
        pipeline: &Pipeline,
        (toolchain, bundle): (&Toolchain, &Bundle),
        topology: &Topology,
        on: &Name,
        choices: &Choices,
    ) -> Result<Self> {
        let home: &Home = &pipeline.home;
        let mut around = around(topology, on, &pipeline.target, choices)?;
        let mut all = Vec::new();
        for name in names(topology, on)? {
            let machine = machines::open(&name, home, toolchain, choices)?;
            ui::step("deploy", &format!("{} on {name}", bundle.manifest().label()));
            let deployed = machine.deploy(bundle)?;
            let link = machine.connect(&deployed)?;
            let facts = machines::facts(&*link, &deployed, &home.log("cluster-facts")?)?;
            around.facts.insert(name.to_string(), facts);
            all.push((name.to_string(), deployed, link));
        }
        topology.check(&around)?;
        Ok(Machines { all })
    }

    /// A plan for a cluster on them.
    pub fn plan<'a>(
        &'a self,
        topology: &'a Topology,
        product: &'a Product,
        data: Option<&'a Path>,
    ) -> Plan<'a> {
        let machines = self.all.iter().map(|(name, deployed, link)| Place {
            name: name.clone(),
            link: &**link,
            deployed,
        });
        Plan { machines: machines.collect(), topology, product, data }
    }

    /// Each machine's name, bundle and link.
    pub fn all(&self) -> &[(String, Deployed, Box<dyn Link>)] {
        &self.all
    }

    /// Why a machine is gone; `None` while they live.
    pub fn lost(&mut self) -> Result<Option<crate::failure::Failure>> {
        for (_, _, link) in &mut self.all {
            if let Some(failure) = link.lost()? {
                return Ok(Some(failure));
            }
        }
        Ok(None)
    }

    /// Ends them in good order.
    pub fn stop(self) -> Result<()> {
        self.all.into_iter().try_for_each(|(_, _, link)| link.stop())
    }
}
