//! Patches as mail for upstream.

use std::path::PathBuf;

use anyhow::{Context, Result};

use super::Which;
use crate::patches::series::Patch;
use crate::ui;

/// Print patches as a mailbox (`git am` reads it), and say where upstream takes them.
#[derive(clap::Args)]
pub struct Args {
    /// Names or numbers; left out: all of the series.
    patches: Vec<String>,
    /// The file that is written; left out: standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    which: Which,
}

/// Writes the mailbox.
pub fn run(args: &Args) -> Result<()> {
    let queue = args.which.one()?;
    let chosen: Vec<&Patch> = if args.patches.is_empty() {
        queue.series.patches.iter().collect()
    } else {
        args.patches.iter().map(|word| queue.patch(word)).collect::<Result<_>>()?
    };
    let mut text = String::new();
    for (at, patch) in chosen.iter().enumerate() {
        text += &mail(patch, at + 1, chosen.len())?;
    }
    match &args.output {
        Some(file) => {
            std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?
        }
        None => ui::print(text.trim_end()),
    }
    let upstream = queue.product.upstream.as_deref().unwrap_or("where its authors take patches");
    ui::step(
        "send",
        &format!("{} of {} to {upstream}", ui::counted(chosen.len() as u64, "patch"), queue.label()),
    );
    Ok(())
}

fn mail(patch: &Patch, number: usize, of: usize) -> Result<String> {
    let header = &patch.header;
    let author = header.author.as_deref().unwrap_or("portbench");
    let author =
        if author.contains('<') { author.to_string() } else { format!("{author} <portbench@localhost>") };
    let date: jiff::civil::Date = header.last_update.as_deref().unwrap_or("1970-01-01").parse()?;
    let date = date.strftime("%a, %d %b %Y 00:00:00 +0000");
    let count = if of > 1 { format!(" {number}/{of}") } else { String::new() };
    let body: Vec<&str> = header.description.lines().skip(1).collect();
    let bug = header.bug.as_ref().map(|bug| format!("\nBug: {bug}\n")).unwrap_or_default();
    let file = std::fs::read_to_string(&patch.file)?;
    let diff =
        file.find("\n--- a/").or_else(|| file.find("\n--- /dev/null")).map_or("", |at| &file[at + 1..]);
    Ok(format!(
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\nFrom: {author}\nDate: {date}\n\
         Subject: [PATCH{count}] {}\n\n{}\n{bug}---\n{}\n-- \nportbench\n\n",
        header.subject(),
        body.join("\n"),
        diff.trim_end(),
    ))
}
