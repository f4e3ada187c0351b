//! `shell`: into a deployed machine with the server up, to look around.

use anyhow::Result;

use super::stand::{Stand, Start};
use crate::failure::{Failure, Kind};
use crate::machines::{self, Call};
use crate::process;
use crate::stages::server;
use crate::ui;

/// Build (where needed), deploy, start a server, and open a shell beside it on its machine.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    stand: Stand,
    #[command(flatten)]
    start: Start,
    /// The bundle's own client, logged in, instead of a shell.
    #[arg(long)]
    sql: bool,
    /// What to run instead of an interactive shell; with --sql: arguments of the client.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

const EXAMPLES: &str = "Examples:
  cargo xtask shell --target ppc64 --on qemu-system            look around in the guest
  cargo xtask shell --target ppc64 --on qemu-system -- 'uname -a; cat /proc/cpuinfo'
  cargo xtask shell --target x86_64 --on local --sql           the server's client
  cargo xtask shell --on qemu-user --sql -- -e 'SELECT VERSION()'

In the shell: $SQL is the logged-in client, $BUNDLE and $DATA are the folders, $SOCKET is the server's.";

/// Opens it; the server ends when it does.
pub fn run(args: Args) -> Result<()> {
    let mut standing = args.stand.up()?;
    let started = args.stand.serve(standing.parts(), &args.start, None, "shell");
    let server = machines::explained(started, || standing.link.lost())?;
    let (link, deployed) = (&*standing.link, &standing.deployed);
    let client = server::client(deployed, &server);
    let mut call = match (args.sql, args.command.as_slice()) {
        (true, more) => client.clone().args(more.iter().cloned()),
        (false, []) => Call { program: "/bin/sh".into(), ..Call::default() }.args(["-i"]),
        (false, words) => Call::shell(&words.join(" "), &[]),
    };
    if !args.sql {
        let line = process::quoted(&link.line(&client));
        let name = format!("{} {} $ ", standing.pipeline.target.name, args.stand.on);
        call.environment = client.environment.clone();
        call.environment.extend([
            ("SQL".to_string(), line),
            ("BUNDLE".into(), deployed.root.display().to_string()),
            ("DATA".into(), server.data().display().to_string()),
            ("SOCKET".into(), server.socket().display().to_string()),
            ("PS1".into(), name),
        ]);
    }
    call.folder = Some(server.data());
    if args.command.is_empty() {
        ui::step("shell", &format!("on {}; its end ends the server", args.stand.on));
    }
    let ended = process::interactive("the shell", link.command(&call));
    let ended = ended.and_then(|status| server.stop().map(|()| status));
    let status = machines::explained(ended, || standing.link.lost())?;
    standing.link.stop()?;
    if status.success() || args.command.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Kind::StageFailed, format!("the command failed: {}", process::ending(status))).into())
}
