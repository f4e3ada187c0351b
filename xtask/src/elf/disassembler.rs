//! The target's objdump: its lines are read as they come, millions of them for a server, and none is kept.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::failure::{Failure, Kind};
use crate::interrupt;
use crate::process::{OnOurDeath, append, ending, shown, spawn_with};

/// What disassembles a file.
pub trait Disassembler: Sync {
    /// Gives each line of a file's disassembly, under some options, to `each`.
    fn lines(&self, file: &Path, options: &[String], each: &mut dyn FnMut(&[u8])) -> Result<()>;
}

/// objdump of GNU binutils.
pub struct Objdump<'a> {
    /// The program's name.
    pub tool: String,
    /// Where its own messages go.
    pub log: &'a Path,
}

impl Disassembler for Objdump<'_> {
    fn lines(&self, file: &Path, options: &[String], each: &mut dyn FnMut(&[u8])) -> Result<()> {
        let command = command(&self.tool, file, options);
        let mut log = append(self.log)?;
        writeln!(log, "$ {}", shown(&command))?;
        let (reader, writer) = std::io::pipe()?;
        let stdio = [Stdio::null(), writer.into(), log.into()];
        // Kept by the thread that waits for it: the kernel ends the child with this very thread.
        let mut child = spawn_with(&self.tool, command, OnOurDeath::Kill, stdio)?;
        each_line(reader, each)?;
        let status = child.wait(Duration::from_secs(60))?.context("objdump closed its output and goes on")?;
        if status.success() {
            return Ok(());
        }
        let what = format!("{} cannot disassemble {}: {}", self.tool, file.display(), ending(status));
        Err(Failure::new(Kind::StageFailed, what).log(self.log).next("the log has its own message").into())
    }
}

/// The command: words that are no instruction are shown as data, no matter which language the user speaks.
pub fn command(tool: &str, file: &Path, options: &[String]) -> Command {
    let mut command = Command::new(tool);
    command.args(["-d", "-w", "--no-show-raw-insn"]).args(options).arg(file).env("LC_ALL", "C");
    command
}

/// Gives each line to `each`, without its end, until the other side closes or a signal comes.
pub fn each_line(from: impl Read, each: &mut dyn FnMut(&[u8])) -> Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, from);
    let mut line = Vec::new();
    for count in 0_u64.. {
        if count.is_multiple_of(4096) {
            interrupt::check()?;
        }
        line.clear();
        if reader.read_until(b'\n', &mut line).context("cannot read from objdump")? == 0 {
            break;
        }
        each(line.strip_suffix(b"\n").unwrap_or(&line));
    }
    Ok(())
}
