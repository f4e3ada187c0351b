//! `show`: records as tables.

use std::path::PathBuf;

use anyhow::Result;

use crate::failure::{Failure, Kind};
use crate::home::repository;
use crate::stages::record;
use crate::{report, ui};

/// Show records: results, caveats, how they ended.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask show                    the newest record\n  cargo xtask show records/*.jsonl    several in one table\n  cargo xtask show --json | jq '.[].workloads[].measurement.throughput_per_s'"
)]
pub struct Args {
    /// Record files; left out: the newest in `records`.
    records: Vec<PathBuf>,
    /// Print what the tables show as JSON, an object a record.
    #[arg(long)]
    json: bool,
}

/// Prints one table over all records.
pub fn run(args: Args) -> Result<()> {
    let paths = if args.records.is_empty() { vec![newest()?] } else { args.records };
    let records = paths.iter().map(|path| record::read(path)).collect::<Result<Vec<_>>>()?;
    if args.json {
        let all = paths.iter().zip(&records).map(|(path, lines)| report::summary(path, lines));
        ui::print(&serde_json::to_string_pretty(&all.collect::<Vec<_>>())?);
        return Ok(());
    }
    report::print(&records, &[]);
    for (path, lines) in paths.iter().zip(&records) {
        let (outcome, why) = report::outcome(lines);
        // Of several records, what the table has no room for would bury the rest.
        let why = why.map(|why| if records.len() == 1 { why } else { why.lines().take(1).collect() });
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        ui::step("record", &format!("{} {outcome}{why}", path.display()));
        report::caveats(lines).iter().for_each(|caveat| ui::step("caveat", caveat));
    }
    Ok(())
}

fn newest() -> Result<PathBuf> {
    let folder = repository().join("records");
    let files = std::fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
    // Their names begin with the time.
    files.filter(|path| path.extension().is_some_and(|e| e == "jsonl")).max().ok_or_else(|| {
        Failure::new(Kind::Usage, format!("there is no record in {}", folder.display()))
            .next("cargo xtask bench --target ppc64le")
            .into()
    })
}
