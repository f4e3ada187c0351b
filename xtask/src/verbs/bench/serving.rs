//! What answers the workloads of an execution: an SQL server, an NDB Cluster, or both.

use anyhow::Result;
use model::request::{Backend, Workload};

use super::{Args, Client};
use crate::failure::{Failure, Kind};
use crate::machines::Link;
use crate::stages::cluster::Cluster;
use crate::stages::run::Watched;
use crate::stages::server::Server;
use crate::tables::product::Product;

/// What answers.
pub struct Serving<'a> {
    /// What runs programs on the server's machine.
    pub link: &'a dyn Link,
    /// The SQL server; ends before the cluster that it is a node of.
    pub server: Option<Server>,
    /// The cluster.
    pub cluster: Option<Cluster>,
}

/// Whether a workload goes through the NDB API rather than SQL.
pub fn is_of_ndb(workload: &Workload) -> bool {
    matches!(workload, Workload::Flexasync(_))
}

/// Refuses what a product cannot run, before anything is built.
pub fn fits(args: &Args, product: &Product, workload: &Workload) -> Result<()> {
    if !is_of_ndb(workload) {
        return if args.null { Ok(()) } else { product.server().map(drop) };
    }
    product.cluster()?;
    if args.client == Client::Host {
        let what = format!("{} is a node of the cluster: --client host has no NDB API", workload.label());
        let next = "leave --client out; on hardware use --on local or ssh:NAME";
        return Err(Failure::new(Kind::Usage, what).next(next).into());
    }
    if args.compare.is_some() && args.client != Client::Target {
        let what = "--compare runs both programs on the server's machine";
        return Err(Failure::new(Kind::Usage, what).next("leave --client out").into());
    }
    if let Client::Ssh(name) = &args.client {
        let what = format!(
            "{} is a node of the cluster, whose nodes listen on their own machines alone",
            workload.label()
        );
        let next = format!("add {name} to a topology as the first machine, and name that with --topology");
        return Err(Failure::new(Kind::Usage, what).next(next).into());
    }
    Ok(())
}

impl Serving<'_> {
    /// What a workload's request says of it. `same_kernel`: processes there are seen by the load generator.
    pub fn backend(&self, workload: &Workload, tcp: bool, same_kernel: bool) -> Result<Backend> {
        if is_of_ndb(workload) {
            let Some(cluster) = &self.cluster else { anyhow::bail!("no cluster was started") };
            return Ok(Backend::Ndb {
                connect_string: cluster.connect_string().to_string(),
                server_pids: if same_kernel { cluster.data_node_pids() } else { Vec::new() },
            });
        }
        let Some(server) = &self.server else { anyhow::bail!("no server was started") };
        Ok(Backend::Server {
            endpoint: server.endpoint(tcp || !same_kernel),
            account: server.account().clone(),
            server_pid: same_kernel.then(|| server.pid()),
        })
    }

    /// What workloads cannot do without.
    pub fn watched(&mut self) -> Vec<&mut dyn Watched> {
        // A cluster that is gone explains why its SQL node is.
        let cluster = self.cluster.as_mut().map(|cluster| cluster as &mut dyn Watched);
        let server = self.server.as_mut().map(|server| server as &mut dyn Watched);
        cluster.into_iter().chain(server).collect()
    }

    /// Ends all of it in good order.
    pub fn stop(self) -> Result<()> {
        if let Some(server) = self.server {
            server.stop()?;
        }
        self.cluster.map_or(Ok(()), Cluster::stop)
    }
}
