//! `serve`: a server of a deployment, left up until Ctrl-C.

use anyhow::Result;
use model::request::Endpoint;

use super::stand::{Stand, Start};
use crate::stages::run::Watched;
use crate::{interrupt, process, ui};

/// Build (where needed), deploy, start a server and leave it up until Ctrl-C.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask serve --target x86_64 --on local --port 3307\n  cargo xtask serve --target ppc64 --on qemu-system --from source\n\nThe password is made anew each time; it goes by the environment variable MYSQL_PWD."
)]
pub struct Args {
    #[command(flatten)]
    stand: Stand,
    #[command(flatten)]
    start: Start,
    /// Print how to connect as one line of JSON, password included.
    #[arg(long)]
    json: bool,
}

/// Starts it, says how to reach it, waits.
pub fn run(args: Args) -> Result<()> {
    let mut standing = args.stand.up()?;
    let mut server = args.stand.serve(&standing, &args.start, "serve")?;
    let (tcp, account) = (server.endpoint(true), server.account());
    let Endpoint::Tcp { address, port } = tcp else { anyhow::bail!("a TCP endpoint is none") };
    if args.json {
        let value = serde_json::json!({
            "machine": args.stand.on.to_string(), "host": address, "port": port, "socket": server.socket(),
            "user": account.user, "password": account.password, "version": server.facts().version,
            "data": server.data(), "log": server.log(), "pid": server.pid(),
        });
        ui::print(&value.to_string());
    } else {
        ui::step("ready", &format!("{} on {}", server.facts().version, args.stand.on));
        ui::print(&format!("export MYSQL_PWD={}", account.password));
        ui::print(&format!("mariadb --host={address} --port={port} --user={}", account.user));
        ui::step("serve", "until Ctrl-C");
    }
    while !interrupt::requested() {
        std::thread::sleep(process::TICK);
        if let Some(failure) = server.lost()? {
            return Err(standing.link.lost()?.unwrap_or(failure).into());
        }
    }
    server.stop()?;
    standing.link.stop()
}
