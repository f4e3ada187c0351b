//! The commits of the edited tree, as patches.

use anyhow::Result;

use super::{Queue, Which, edit};
use crate::patches::write;
use crate::ui;

/// Today, as `Last-Update:` has it.
pub fn today() -> String {
    jiff::Zoned::now().date().to_string()
}

/// Writes what has changed.
pub fn run(which: &Which) -> Result<()> {
    let (home, queue) = (which.home()?, which.one()?);
    let tree = edit::opened(&home, &queue)?;
    let left_out = tree.left_out(&queue.series)?;
    let entries = write::entries(&queue.series, &tree.commits()?, &left_out, &today())?;
    let written = entries.iter().filter(|entry| entry.text.is_some()).map(|entry| entry.entry.clone());
    let written: Vec<String> = written.collect();
    let stays = |name: &String| entries.iter().any(|entry| entry.entry.rsplit('/').next() == Some(name));
    let gone: Vec<String> = queue.series.names().into_iter().filter(|name| !stays(name)).collect();
    write::series(&queue.series.folder, &entries)?;
    let queue = Queue::of(&queue.product, &queue.release)?;
    tree.written(&queue.series, left_out)?;
    written.iter().for_each(|name| ui::step("wrote", name));
    gone.iter().for_each(|name| ui::step("removed", name));
    if written.is_empty() && gone.is_empty() {
        ui::step("refresh", &format!("{}: nothing has changed", queue.label()));
    }
    Ok(())
}
