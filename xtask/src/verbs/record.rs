//! `record`: the record's schema, and files held against it.

use std::path::PathBuf;

use anyhow::Result;

use crate::stages::record;
use crate::{report, ui};

/// Check record files against their schema, or print the schema.
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  cargo xtask record check records/*.jsonl\n  cargo xtask record schema > record.schema.json"
)]
pub struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// Check that files are valid records; stops at the first that is not, with exit code 44.
    Check {
        /// The files.
        #[arg(required = true)]
        records: Vec<PathBuf>,
    },
    /// Print the JSON Schema of one line of a record.
    Schema,
}

/// Checks, or prints.
pub fn run(args: Args) -> Result<()> {
    match args.what {
        What::Schema => {
            let schema = schemars::schema_for!(model::record::Line);
            ui::print(&serde_json::to_string_pretty(&schema)?);
        }
        What::Check { records } => {
            for path in records {
                let lines = record::read_checked(&path)?;
                ui::step(
                    "valid",
                    &format!("{} ({}, {} lines)", path.display(), report::outcome(&lines).0, lines.len()),
                );
            }
        }
    }
    Ok(())
}
