//! The cells of a matrix: every target on every machine from every origin, and what became of each.

use anyhow::Result;

use super::super::cluster;
use super::Args;
use crate::failure::{Failure, Kind, kind_of};
use crate::machines::name::Name;
use crate::machines::{self, Choices};
use crate::pipeline::{From, Pipeline};
use crate::report::Absent;
use crate::stages::bundle::Bundle;
use crate::stages::distro;
use crate::stages::toolchain::Toolchain;
use crate::tables::topology::Topology;
use crate::{interrupt, ui};

/// One execution that was asked for.
pub struct Cell {
    /// Its target: the place of its pipeline.
    pub pipeline: usize,
    /// Its machine.
    pub on: Name,
    /// Where its programs come from.
    pub from: From,
    /// What became of it.
    pub state: State,
    /// Whether it has a record.
    pub recorded: bool,
}

/// What became of a cell.
pub enum State {
    /// Nothing yet.
    Planned,
    /// There is no such thing: why.
    Impossible(anyhow::Error),
    /// Built.
    Ready(Box<(Toolchain, Bundle)>),
    /// It failed.
    Failed(anyhow::Error),
    /// Done.
    Done,
}

/// All of them.
pub struct Cells {
    /// One a target.
    pub pipelines: Vec<Pipeline>,
    /// In the order in which they are executed.
    pub all: Vec<Cell>,
    null: bool,
    /// Of clusters.
    topology: Option<Topology>,
}

impl Cells {
    /// The cells that the flags ask for, those that cannot exist among them.
    pub fn new(args: &Args) -> Result<Self> {
        let mut pipelines = args.what.pipelines()?;
        let clusters = !args.null && pipelines.iter().any(|pipeline| pipeline.product.cluster.is_some());
        let topology = if clusters { Some(Topology::of(args.topology.as_deref())?) } else { None };
        let mut all: Vec<Cell> = Vec::new();
        if let Some(against) = &args.against {
            let first = pipelines.len();
            pipelines.extend(args.what.pipelines_with(against)?);
            for turn in 0..args.repeat() {
                for index in 0..first {
                    // Each is the first every other time: what warms up helps neither.
                    let pair = if turn % 2 == 0 { [index, first + index] } else { [first + index, index] };
                    for (pipeline, on) in
                        pair.into_iter().flat_map(|one| args.on.iter().map(move |on| (one, on)))
                    {
                        let why =
                            impossible(args, topology.as_ref(), &pipelines[pipeline], on, From::Source)?;
                        let state = why.map_or(State::Planned, State::Impossible);
                        all.push(Cell {
                            pipeline,
                            on: on.clone(),
                            from: From::Source,
                            state,
                            recorded: false,
                        });
                    }
                }
            }
            return Ok(Cells { pipelines, all, null: false, topology });
        }
        for (index, pipeline) in pipelines.iter().enumerate() {
            for on in &args.on {
                for from in &args.from {
                    if all.iter().any(|cell| cell.pipeline == index && cell.on == *on && cell.from == *from) {
                        continue;
                    }
                    let state = match impossible(args, topology.as_ref(), pipeline, on, *from)? {
                        Some(why) => State::Impossible(why),
                        None => State::Planned,
                    };
                    all.push(Cell { pipeline: index, on: on.clone(), from: *from, state, recorded: false });
                    if args.null {
                        // Without a server it makes no difference where a server comes from.
                        break;
                    }
                }
            }
        }
        Ok(Cells { pipelines, all, null: args.null, topology })
    }

    /// Builds what every cell needs: everything is built before anything is timed, and nothing for a machine that would
    /// not do.
    pub fn prepare(&mut self, choices: &Choices) -> Result<()> {
        for cell in 0..self.all.len() {
            let (on, pipeline) = (&self.all[cell].on, &self.pipelines[self.all[cell].pipeline]);
            if !matches!(self.all[cell].state, State::Planned) {
                continue;
            }
            let each = machines_of(self.topology.as_ref(), pipeline, on)?;
            let fits = |name: &Name| machines::fits(name, &pipeline.home, &pipeline.target, choices);
            if let Err(error) = each.iter().try_for_each(fits) {
                interrupt::check()?;
                self.failed(cell, error);
            }
        }
        for index in 0..self.pipelines.len() {
            let mine: Vec<usize> = (0..self.all.len())
                .filter(|cell| self.all[*cell].pipeline == index)
                .filter(|cell| matches!(self.all[*cell].state, State::Planned))
                .collect();
            let froms: Vec<From> = mine.iter().map(|cell| self.all[*cell].from).collect();
            if mine.is_empty() {
                continue;
            }
            let toolchain = self.pipelines[index].toolchain(if self.null { &[] } else { &froms });
            for cell in mine {
                let pipeline = &self.pipelines[index];
                let built = match &toolchain {
                    Ok(toolchain) => self
                        .bundle(pipeline, toolchain, self.all[cell].from)
                        .map(|bundle| (toolchain.clone(), bundle)),
                    Err(error) => Err(copy(error)),
                };
                interrupt::check()?;
                match built {
                    Ok(parts) => self.all[cell].state = State::Ready(Box::new(parts)),
                    Err(error) => self.failed(cell, error),
                }
            }
        }
        Ok(())
    }

    fn bundle(&self, pipeline: &Pipeline, toolchain: &Toolchain, from: From) -> Result<Bundle> {
        if self.null { pipeline.bench_bundle(toolchain) } else { pipeline.bundle(toolchain, from) }
    }

    /// Notes a failure, and says it at once where it will not be the command's last word.
    pub fn failed(&mut self, index: usize, error: anyhow::Error) {
        if self.all.len() > 1 {
            let cell = &self.all[index];
            let target = &self.pipelines[cell.pipeline].target.name;
            ui::warn(&format!("{target} on {}: {error:#}", cell.on));
        }
        self.all[index].state = State::Failed(error);
    }

    /// Rows for the cells that have no record.
    pub fn without_record(&self) -> Vec<Absent> {
        let rows = self.all.iter().filter(|cell| !cell.recorded).filter_map(|cell| {
            let reason = match &cell.state {
                State::Impossible(why) => format!("not possible: {}", first_line(why)),
                State::Failed(error) => format!("failed: {}", first_line(error)),
                State::Planned | State::Ready(_) => "not run".into(),
                State::Done => return None,
            };
            Some(Absent {
                target: self.pipelines[cell.pipeline].target.name.clone(),
                machine: cell.on.to_string(),
                reason,
            })
        });
        rows.collect()
    }

    /// The command's own end: the first failure. A cell that cannot exist fails only a command that asked for no other.
    pub fn verdict(self) -> Result<()> {
        let several = self.all.len() > 1;
        let none_ran = self.all.iter().all(|cell| matches!(cell.state, State::Impossible(_)));
        let mut first = None;
        let mut failed = 0;
        for cell in self.all {
            match cell.state {
                State::Failed(error) => {
                    failed += 1;
                    first.get_or_insert(error);
                }
                State::Impossible(why) if none_ran => {
                    first.get_or_insert(why);
                }
                _ => {}
            }
        }
        match first {
            Some(error) if several && failed > 1 => {
                Err(error.context(format!("{failed} executions failed, the first one so")))
            }
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}

/// Why a cell cannot exist: the failure of a command that asks for nothing else.
fn impossible(
    args: &Args,
    topology: Option<&Topology>,
    pipeline: &Pipeline,
    on: &Name,
    from: From,
) -> Result<Option<anyhow::Error>> {
    if from == From::Distro
        && !args.null
        && let Err(why) = distro::exists(&pipeline.target).and_then(|()| pipeline.product.distro().map(drop))
    {
        return Ok(Some(why));
    }
    for name in machines_of(topology, pipeline, on)? {
        if let Some(why) = machines::impossible(&name, &pipeline.target, &args.choices)? {
            let next = "cargo xtask targets shows what runs here";
            return Ok(Some(Failure::new(Kind::WrongMachine, why).next(next).into()));
        }
        if args.start.data.is_some() {
            machines::keeps_data(&name)?;
        }
    }
    Ok(None)
}

/// The machines of a cell: of a cluster those of its topology, whose nodes may all be elsewhere than `--on` says.
pub fn machines_of(topology: Option<&Topology>, pipeline: &Pipeline, on: &Name) -> Result<Vec<Name>> {
    match topology.filter(|_| pipeline.product.cluster.is_some()) {
        Some(topology) => cluster::names(topology, on),
        None => Ok(vec![on.clone()]),
    }
}

/// One failure for each of several cells that it meets.
fn copy(error: &anyhow::Error) -> anyhow::Error {
    let kind = kind_of(error).unwrap_or(Kind::StageFailed);
    Failure::new(kind, format!("{error:#}")).into()
}

fn first_line(error: &anyhow::Error) -> String {
    format!("{error:#}").lines().next().unwrap_or_default().to_string()
}
