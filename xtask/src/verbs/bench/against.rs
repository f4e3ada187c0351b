//! One release with some patches and with others, in turn, as one comparison.

use anyhow::Result;
use model::record::Line;

use super::Args;
use super::cells::Cells;
use crate::failure::{Failure, Kind};
use crate::patches::series::Series;
use crate::pipeline::{From, Pipeline};
use crate::report::{self, Side};

/// Refuses what cannot be compared, before anything is built.
pub fn refuse(args: &Args) -> Result<()> {
    let usage =
        |what: &str, next: &str| -> Result<()> { Err(Failure::new(Kind::Usage, what).next(next).into()) };
    let Some(against) = &args.against else {
        let stray = args.repeat.is_some() && args.compare.is_none();
        return if stray { usage("--repeat of what?", "add --compare or --against") } else { Ok(()) };
    };
    if args.from != [From::Source] {
        return usage("--against compares patches, which only --from source has", "leave --from out");
    }
    for (one, other) in args.what.pipelines()?.iter().zip(args.what.pipelines_with(against)?) {
        if chosen(one)? == chosen(&other)? {
            let what = format!(
                "--patches {} and --against {against} are the same for {}",
                one.patches, one.product.name
            );
            return usage(&what, "choose others; cargo xtask patch list");
        }
    }
    Ok(())
}

fn chosen(pipeline: &Pipeline) -> Result<Vec<String>> {
    let series = Series::of(pipeline.product.source(), &pipeline.release.version)?;
    Ok(series.chosen(&pipeline.patches, &pipeline.target.name)?.names())
}

/// The comparison, then what came to no record.
pub fn print(cells: &Cells, records: &[Vec<Line>]) {
    let half = cells.pipelines.len() / 2;
    let recorded = cells.all.iter().filter(|cell| cell.recorded);
    let sides: Vec<Side> =
        recorded.map(|cell| if cell.pipeline < half { Side::One } else { Side::Other }).collect();
    let name = |at: usize| cells.pipelines[at].patches.to_string();
    let sided: Vec<(Side, &Vec<Line>)> = sides.into_iter().zip(records).collect();
    report::print_sides(&sided, [&name(0), &name(half)]);
    let absent = cells.without_record();
    if !absent.is_empty() {
        report::print(&[], &absent);
    }
}
