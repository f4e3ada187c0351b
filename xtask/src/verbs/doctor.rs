//! `doctor`: what works on this host, and how to mend what does not. It changes nothing.

use anyhow::Result;
use serde::Serialize;
use xshell::{Shell, cmd};

use crate::failure::{Failure, Kind};
use crate::home::{self, Home};
use crate::process::{find_program, output};
use crate::stages::emulator::{self, Emulator};
use crate::stages::sysroot::Sysroot;
use crate::stages::{rust_std, sysroot, toolchain};
use crate::tables::product::Product;
use crate::tables::target::Target;
use crate::ui::{self, Table};
use crate::{debian, host, setup};

/// Check what a target and a product need on this host; each check with its fix. Changes nothing.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask doctor --target ppc64le\n  cargo xtask doctor --json | jq '.[] | select(.status != \"ok\")'\n\nExit code 3 if something that is needed is missing or broken."
)]
pub struct Args {
    /// The target; see `cargo xtask targets`.
    #[arg(long, short, default_value = "ppc64le")]
    target: String,
    /// The product; see `cargo xtask products`.
    #[arg(long, short, default_value = "mariadb")]
    product: String,
    /// Print the checks as JSON.
    #[arg(long)]
    json: bool,
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Status {
    /// As it should be.
    Ok,
    /// Not there, and will be made or fetched by the verbs that need it.
    NotYet,
    /// Could be better.
    Advice,
    /// Not there, and needed.
    Missing,
    /// There, and does not work.
    Broken,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::NotYet => "not yet",
            Status::Advice => "advice",
            Status::Missing => "missing",
            Status::Broken => "broken",
        }
    }
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    check: String,
    status: Status,
    found: String,
    fix: String,
}

fn check(name: &str, status: Status, found: impl Into<String>, fix: impl Into<String>) -> Check {
    let fix = if status == Status::Ok { String::new() } else { fix.into() };
    Check { check: name.into(), status, found: found.into(), fix }
}

/// Makes every check, prints them, and fails if something needed is missing or broken.
pub fn run(args: Args) -> Result<()> {
    let (target, product) = (Target::load(&args.target)?, Product::load(&args.product)?);
    let home = Home::open()?;
    let mut checks = vec![host()];
    checks.extend(programs(&target));
    checks.push(packages(&target, &product)?);
    let (sysroot, found) = sysroot_check(&home, &target);
    checks.push(sysroot);
    checks.extend(emulators(&home, &target, found.as_ref())?);
    checks.push(rust(&home, &target)?);
    checks.push(binfmt(&target));
    checks.extend(resources(&home, &product)?);
    checks.push(cache());
    if args.json {
        ui::print(&serde_json::to_string_pretty(&checks)?);
    } else {
        let mut table = Table::new(&["check", "status", "found", "fix"]);
        for check in &checks {
            table.row([
                check.check.clone(),
                check.status.name().into(),
                check.found.clone(),
                check.fix.clone(),
            ]);
        }
        table.print();
    }
    let bad = checks.iter().filter(|c| matches!(c.status, Status::Missing | Status::Broken));
    let names: Vec<&str> = bad.map(|check| check.check.as_str()).collect();
    if names.is_empty() {
        return Ok(());
    }
    Err(Failure::new(Kind::StageFailed, format!("needed and not in order: {}", names.join(", ")))
        .next("the table's last column")
        .into())
}

fn host() -> Check {
    let name = debian::host_name();
    match debian::codename() {
        Some(_) => check("host", Status::Ok, name, ""),
        None => check("host", Status::Advice, name, "not Debian: packages are named, not installed"),
    }
}

fn programs(target: &Target) -> Vec<Check> {
    let fix = format!("cargo xtask setup --target {}", target.name);
    let cross = ["gcc", "g++", "objdump"].map(|tool| target.tool(tool));
    let all = ["cc".to_string()].into_iter().chain(cross).chain(["cmake".into(), "ninja".into()]);
    all.map(|name| {
        let said = Shell::new().map_err(Into::into).and_then(|sh| output(cmd!(sh, "{name} --version")));
        match (find_program(&name), said) {
            (None, _) if name == "cc" => check("cc", Status::Missing, "", "apt-get install gcc libc6-dev"),
            (None, _) => check(&name, Status::NotYet, "not installed", &fix),
            (Some(_), Ok(text)) => check(&name, Status::Ok, text.lines().next().unwrap_or_default(), ""),
            (Some(path), Err(_)) => check(
                &name,
                Status::Broken,
                format!("{} does not start", path.display()),
                "reinstall its package",
            ),
        }
    })
    .collect()
}

fn packages(target: &Target, product: &Product) -> Result<Check> {
    let wanted = setup::packages(target, Some(product))?;
    if debian::codename().is_none() {
        return Ok(check(
            "packages",
            Status::Advice,
            "cannot be asked for here",
            format!("needed: {}", wanted.join(" ")),
        ));
    }
    let absent = setup::missing(&wanted)?;
    if absent.is_empty() {
        return Ok(check("packages", Status::Ok, wanted.join(" "), ""));
    }
    let allowed = setup::privilege() != setup::Privilege::None;
    let status = if allowed { Status::NotYet } else { Status::Missing };
    Ok(check(
        "packages",
        status,
        format!("missing: {}", absent.join(" ")),
        format!("cargo xtask setup --target {}", target.name),
    ))
}

fn sysroot_check(home: &Home, target: &Target) -> (Check, Option<Sysroot>) {
    let make = format!("cargo xtask sysroot --target {}", target.name);
    match sysroot::found(home, target) {
        Ok(Some(found)) => {
            let what = format!("{} packages in {}", found.packages().len(), found.root().display());
            (check("sysroot", Status::Ok, what, ""), Some(found))
        }
        Ok(None) => (check("sysroot", Status::NotYet, "not made", make), None),
        Err(error) => {
            let what = error.to_string().lines().next().unwrap_or_default().to_string();
            (check("sysroot", Status::Broken, what, format!("{make} --renew")), None)
        }
    }
}

/// Each emulator that is here is tried on a program of the baseline CPU: its version alone proves nothing.
fn emulators(home: &Home, target: &Target, sysroot: Option<&Sysroot>) -> Result<Vec<Check>> {
    let fetch = match std::env::var_os(emulator::VARIABLE) {
        Some(_) => format!("unset {}", emulator::VARIABLE),
        None => format!("cargo xtask toolchain --target {} fetches one for portbench alone", target.name),
    };
    let mut checks = Vec::new();
    for (program, version) in emulator::present(home, target)? {
        let (name, shown) = ("emulator", program.display().to_string());
        let Some(version) = version else {
            checks.push(check(name, Status::Broken, format!("{shown} does not start"), &fetch));
            continue;
        };
        if !emulator::new_enough(&version, target) {
            let why = format!(
                "{shown}: version {version}, {} is needed: {}",
                target.emulator.minimum, target.emulator.why
            );
            checks.push(check(name, Status::Advice, why, &fetch));
            continue;
        }
        let candidate = Emulator::candidate(program, version.clone(), target);
        let tried = sysroot.and_then(|sysroot| toolchain::try_emulator(home, target, sysroot, &candidate));
        checks.push(match tried {
            Some(Ok(())) => check(
                name,
                Status::Ok,
                format!("{shown}: version {version}, runs a program at -cpu {}", candidate.cpu()),
                "",
            ),
            Some(Err(error)) => check(name, Status::Broken, error.to_string(), &fetch),
            None => check(
                name,
                Status::NotYet,
                format!("{shown}: version {version}, not tried: no toolchain was made yet"),
                &fetch,
            ),
        });
    }
    if checks.is_empty() {
        checks.push(check(
            "emulator",
            Status::NotYet,
            format!("no {} here", target.emulator.program),
            &fetch,
        ));
    }
    Ok(checks)
}

fn rust(home: &Home, target: &Target) -> Result<Check> {
    Ok(match rust_std::present(home, target)? {
        Ok(found) => check("rust", Status::Ok, found, ""),
        Err(found) => {
            check("rust", Status::NotYet, found, format!("cargo xtask toolchain --target {}", target.name))
        }
    })
}

/// Explained, for those who know that emulators often need it: portbench does not.
fn binfmt(target: &Target) -> Check {
    let file = std::path::Path::new("/proc/sys/fs/binfmt_misc").join(&target.emulator.program);
    let found = if file.exists() { "registered" } else { "not registered" };
    check("binfmt", Status::Ok, format!("{found}; not needed: the emulator is always called by name"), "")
}

fn resources(home: &Home, product: &Product) -> Result<Vec<Check>> {
    let (need, free) = (product.build.disk_mib, home::free_bytes(home.root())? >> 20);
    let disk =
        format!("{free} MiB free in {}, a build of {} takes {need}", home.root().display(), product.name);
    let status = if free >= need { Status::Ok } else { Status::Missing };
    let mut checks = vec![check("disk", status, disk, "export PORTBENCH_HOME=/a/folder/on/a/larger/disk")];
    let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let memory = host::available_memory_bytes().unwrap_or(0) >> 20;
    let found = format!("{memory} MiB available for {cpus} compile jobs");
    let status = if memory >= cpus * 1024 { Status::Ok } else { Status::Advice };
    checks.push(check("memory", status, found, "compile with fewer --jobs: each takes up to 1024 MiB"));
    Ok(checks)
}

fn cache() -> Check {
    match ["ccache", "sccache"].into_iter().find_map(find_program) {
        Some(program) => check("compiler cache", Status::Ok, program.display().to_string(), ""),
        None => check(
            "compiler cache",
            Status::Advice,
            "none",
            "apt-get install ccache: rebuilding is ten times faster",
        ),
    }
}
