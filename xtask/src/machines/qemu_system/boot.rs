//! A guest, started: what it is given, and its emulator's command line.

use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::folder::Folder;
use crate::home::Home;
use crate::process::{self, Guarded, OnOurDeath};
use crate::stage::hex;
use crate::stages::guest::{Parts, disk, initramfs};
use crate::tables::guest::Guest as Table;

/// The user that programs run as in a guest.
pub const USER: u32 = 1000;
/// The agent's port in a guest.
const AGENT_PORT: u16 = 7000;
/// The only port of a guest, beside the agent's, that this host reaches.
pub const SERVER_PORT: u16 = 3306;
/// What QEMU's network calls its first guest.
const ADDRESS: &str = "10.0.2.15/24";

/// What a guest is booted from.
pub struct Plan<'a> {
    /// The cache.
    pub home: &'a Home,
    /// Emulator, kernel, first file system.
    pub parts: &'a Parts,
    /// The table, with what a person chose in it.
    pub table: &'a Table,
    /// The bundle's image.
    pub bundle: &'a Path,
    /// Size of the data disk.
    pub disk_mib: u32,
    /// The bundle's loader, libraries and bench binary, by their paths in the guest.
    pub programs: [PathBuf; 3],
    /// The console's log.
    pub log: PathBuf,
    /// The console that the target's table names.
    pub usual_console: &'a str,
}

/// Ports of this host that lead into the guest.
#[derive(Clone, Copy)]
pub struct Ports {
    /// To the agent.
    pub agent: u16,
    /// To the server.
    pub server: u16,
}

/// An emulator that was started, and what belongs to it.
pub struct Started {
    /// The emulator.
    pub process: Guarded,
    /// Its standard output and error: the console and the emulator's own words.
    pub output: std::io::PipeReader,
    /// Ports that lead into it.
    pub ports: Ports,
    /// Marks the lines of the console that are ours.
    pub nonce: String,
    /// What relays must know.
    pub token: String,
    /// Its files.
    pub folder: Folder,
}

/// Starts the emulator.
pub fn start(plan: &Plan) -> Result<Started> {
    let folder = Folder::make(&plan.home.folder("run")?)?;
    let (nonce, token) = (random_hex(8)?, random_hex(16)?);
    let ports = free_ports()?;
    disk::of_data(plan.home, &folder.file(DATA), plan.disk_mib, USER)?;
    let [loader, libraries, bench] = &plan.programs;
    let settings = initramfs::settings(&initramfs::Settings {
        nonce: &nonce,
        token: &token,
        run_as: USER,
        port: AGENT_PORT,
        address: ADDRESS,
        loader,
        libraries,
        bench,
    });
    let first = &plan.parts.initramfs;
    let mut archives = fs::read(first).with_context(|| format!("cannot read {}", first.display()))?;
    archives.extend_from_slice(&settings);
    fs::write(folder.file(INITRAMFS), archives)?;
    let command = command(plan, &folder, ports);
    fs::write(&plan.log, format!("$ {}\n", process::shown(&command)))?;
    let (output, writer) = std::io::pipe()?;
    let stdio = [Stdio::piped(), writer.try_clone()?.into(), writer.into()];
    let process = process::spawn_with("the guest", command, OnOurDeath::Kill, stdio)?;
    Ok(Started { process, output, ports, nonce, token, folder })
}

const DATA: &str = "data.ext4";
const INITRAMFS: &str = "initramfs.cpio";

/// The emulator's command line.
fn command(plan: &Plan, folder: &Folder, ports: Ports) -> Command {
    let table = plan.table;
    let machine: Vec<&str> =
        std::iter::once(&table.machine).chain(&table.machine_options).map(String::as_str).collect();
    let mut command = plan.parts.emulator.command();
    command.args(["-name", "portbench", "-no-user-config", "-nodefaults", "-no-reboot"]);
    command.args(["-display", "none", "-vga", "none", "-accel", "tcg,thread=multi"]);
    command.args(["-machine", &machine.join(","), "-cpu", &table.cpu]);
    command.args(["-smp", &table.cpus.to_string(), "-m", &table.memory_mib.to_string()]);
    command.arg("-kernel").arg(&plan.parts.kernel.image).arg("-initrd").arg(folder.file(INITRAMFS));
    // A panic ends the guest: with -no-reboot, a reboot ends the emulator.
    command.args(["-append", &format!("console={} panic=1", table.console)]);
    command.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
    let data = folder.file(DATA);
    for (name, file, more) in [("bundle", plan.bundle, ",readonly=on"), ("data", data.as_path(), "")] {
        let file = escaped(file);
        command.args(["-drive", &format!("file={file},if=none,id={name},format=raw{more}")]);
        command.args(["-device", &format!("virtio-blk-pci,drive={name},serial={name}")]);
    }
    command.args(["-netdev", &network(ports)]);
    command.args(["-device", "virtio-net-pci,netdev=net,romfile=", "-device", "virtio-rng-pci"]);
    command
}

/// Only what is forwarded comes in, and nothing goes out.
fn network(ports: Ports) -> String {
    let forward = |host: u16, guest: u16| format!("hostfwd=tcp:127.0.0.1:{host}-:{guest}");
    let (agent, server) = (forward(ports.agent, AGENT_PORT), forward(ports.server, SERVER_PORT));
    format!("user,id=net,restrict=on,ipv6=off,{agent},{server}")
}

/// QEMU takes a comma for the end of a value unless it is doubled.
fn escaped(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Two ports of this host that are free now.
fn free_ports() -> Result<Ports> {
    // Both at once: one after the other could be the same.
    let one = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no free port on 127.0.0.1");
    let (agent, server) = (one()?, one()?);
    Ok(Ports { agent: agent.local_addr()?.port(), server: server.local_addr()?.port() })
}

fn random_hex(bytes: usize) -> Result<String> {
    let mut random = vec![0; bytes];
    File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(hex(&random))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_does_not_end_it() {
        assert_eq!(escaped(Path::new("/a,b/c")), "/a,,b/c");
    }

    #[test]
    fn the_network_lets_in_what_is_forwarded_and_nothing_else() {
        let network = network(Ports { agent: 1, server: 2 });
        assert!(network.contains("restrict=on") && network.contains("hostfwd=tcp:127.0.0.1:1-:7000"));
        assert_eq!(network.matches("hostfwd").count(), 2);
    }
}
