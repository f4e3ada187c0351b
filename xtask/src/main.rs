//! portbench's orchestrator: a table of contents.

mod failure;
mod home;
mod interrupt;
mod process;
mod stage;
mod tables;
mod ui;

fn main() {}
