//! What the bench binary sees of the machine it runs on.
//!
//! Each module parses one part of what kernels tell in `/proc` and `/sys`; what they do not tell is left out. Under
//! qemu-user both are the host's, see [`model::facts::Facts`].

mod cpuinfo;
pub mod folder;
mod frequency;
pub mod memory;
mod program;
pub mod topology;

use std::path::{Path, PathBuf};

use model::facts::Facts;

/// A tree of small files that a kernel makes up: `/proc`, `/sys`, or a sample of them.
pub struct Tree(PathBuf);

impl Tree {
    /// The machine's own files.
    pub fn of_machine() -> Self {
        Tree("/".into())
    }

    /// A file's text without white space around it; `None` where there is none or it is empty.
    fn text(&self, path: &str) -> Option<String> {
        let text = std::fs::read(self.0.join(path)).ok()?;
        // The device tree's strings end with a zero byte.
        let text = String::from_utf8_lossy(&text).trim_matches(['\0', ' ', '\n', '\t']).to_string();
        (!text.is_empty()).then_some(text)
    }

    /// A file that holds one number.
    fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder that begin so, without that beginning.
    fn names(&self, folder: impl AsRef<Path>, begin: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join(folder)).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter_map(|name| name.strip_prefix(begin).map(String::from)).collect()
    }
}

/// Reads the facts.
pub fn read() -> Facts {
    let uname = rustix::system::uname();
    let mut facts = Facts {
        kernel: uname.release().to_string_lossy().into_owned(),
        machine: uname.machine().to_string_lossy().into_owned(),
        // Of the running program: a big-endian program under an emulator says so.
        byte_order: if cfg!(target_endian = "big") { "big" } else { "little" }.into(),
        pointer_bits: usize::BITS,
        page_bytes: rustix::param::page_size() as u64,
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        libc: program::libc(),
        seen_through: program::seen_through(),
        ..Facts::default()
    };
    of_machine(&Tree::of_machine(), &mut facts);
    facts
}

/// The facts that are in files.
fn of_machine(tree: &Tree, facts: &mut Facts) {
    let cpuinfo = tree.text("proc/cpuinfo").unwrap_or_default();
    facts.cpu_model = cpuinfo::model(&cpuinfo);
    facts.frequency_now_hz = cpuinfo::frequency_now_hz(&cpuinfo);
    facts.timebase_hz = cpuinfo::timebase_hz(&cpuinfo);
    facts.platform = tree
        .text("proc/device-tree/model")
        .or_else(|| cpuinfo::platform(&cpuinfo))
        .or_else(|| tree.text("sys/class/dmi/id/product_name"));
    topology::read(tree, facts);
    frequency::read(tree, facts);
    memory::read(tree, facts);
    facts.clock_source = tree.text("sys/devices/system/clocksource/clocksource0/current_clocksource");
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A tree of these files.
    pub fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree(folder.path().into());
        (folder, tree)
    }

    #[test]
    fn this_machine_has_facts() {
        let facts = read();
        assert!(!facts.machine.is_empty() && facts.cpus >= 1 && facts.page_bytes >= 4096);
        assert!(facts.allowed_cpus.is_some_and(|cpus| cpus.count() as u32 >= facts.cpus));
        assert!(facts.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn what_a_kernel_does_not_tell_is_left_out() {
        let (_folder, tree) = tree(&[("proc/cpuinfo", "")]);
        let mut facts = Facts::default();
        of_machine(&tree, &mut facts);
        assert_eq!(facts, Facts::default());
    }

    #[test]
    fn a_machine_calls_itself_by_its_device_tree_or_its_firmware() {
        let platform = |files: &[(&str, &str)]| {
            let (_folder, tree) = tree(files);
            let mut facts = Facts::default();
            of_machine(&tree, &mut facts);
            facts.platform.unwrap()
        };
        let device_tree = ("proc/device-tree/model", "IBM,8247-22L\0");
        assert_eq!(platform(&[device_tree]), "IBM,8247-22L");
        assert_eq!(platform(&[("proc/cpuinfo", cpuinfo::POWER)]), "IBM pSeries (emulated by qemu)");
        let dmi = ("sys/class/dmi/id/product_name", "ProLiant DL380 Gen10\n");
        assert_eq!(platform(&[dmi, ("proc/cpuinfo", cpuinfo::X86)]), "ProLiant DL380 Gen10");
    }
}
