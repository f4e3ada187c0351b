//! What a guest's console tells: how far it has come, what went wrong, how it ended. No I/O here.
//!
//! Our own lines are `portbench NONCE …`. Without the nonce anything that the guest prints could be taken for them.

use std::collections::BTreeMap;
use std::time::Duration;

/// How far a guest has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// The firmware has said its name.
    Firmware,
    /// The kernel has said its version.
    Kernel,
    /// The first process runs.
    Init,
    /// Programs can be run.
    Agent,
}

impl Stage {
    /// All, in their order.
    pub const ALL: [Stage; 4] = [Stage::Firmware, Stage::Kernel, Stage::Init, Stage::Agent];

    /// What a person calls it.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Firmware => "firmware",
            Stage::Kernel => "kernel",
            Stage::Init => "init",
            Stage::Agent => "agent",
        }
    }
}

/// What went wrong, in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// What happened.
    pub what: String,
    /// Whether more memory would have helped.
    pub memory: bool,
}

/// The console so far.
#[derive(Debug)]
pub struct Console {
    nonce: String,
    firmware: Option<String>,
    reached: BTreeMap<Stage, Duration>,
    facts: BTreeMap<String, String>,
    facts_at: Duration,
    trouble: Option<Trouble>,
    exit: Option<i32>,
    /// The last line that was not empty.
    last: String,
    /// What came behind the last line's end.
    partial: Vec<u8>,
}

/// A line longer than this is cut: a guest gone wild must not fill our memory.
const LONGEST_LINE_BYTES: usize = 4096;

impl Console {
    /// A console on which nothing was said. `firmware`: what the firmware's first words hold.
    pub fn new(nonce: &str, firmware: Option<&str>) -> Self {
        Console {
            nonce: nonce.into(),
            firmware: firmware.map(String::from),
            reached: BTreeMap::new(),
            facts: BTreeMap::new(),
            facts_at: Duration::ZERO,
            trouble: None,
            exit: None,
            last: String::new(),
            partial: Vec::new(),
        }
    }

    /// The guest said something more, so long after it was started.
    pub fn feed(&mut self, bytes: &[u8], at: Duration) {
        for byte in bytes {
            if *byte == b'\n' || self.partial.len() >= LONGEST_LINE_BYTES {
                let line = plain(&std::mem::take(&mut self.partial));
                self.line(line, at);
            }
            if *byte != b'\n' {
                self.partial.push(*byte);
            }
        }
    }

    /// When it reached a stage; a later stage stands for the earlier ones.
    pub fn reached(&self, stage: Stage) -> Option<Duration> {
        self.reached.range(stage..).map(|(_, at)| *at).min()
    }

    /// Whether it said nothing at all.
    pub fn is_silent(&self) -> bool {
        self.last_line().is_empty()
    }

    /// The last thing that it said, be the line ended or not.
    pub fn last_line(&self) -> String {
        let partial = plain(&self.partial);
        if partial.is_empty() { self.last.clone() } else { partial }
    }

    /// What went wrong; the first of several things, for the others follow from it.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// The exit code that it told; `None`: it is not known.
    pub fn exit(&self) -> Option<i32> {
        self.exit
    }

    /// What the first process told of the guest, by name.
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.get(name).map(String::as_str)
    }

    /// When it told them.
    pub fn facts_at(&self) -> Duration {
        self.facts_at
    }

    fn line(&mut self, line: String, at: Duration) {
        if line.is_empty() {
            return;
        }
        if self.firmware.as_ref().is_some_and(|words| line.contains(words)) {
            self.reached.entry(Stage::Firmware).or_insert(at);
        }
        if line.contains("Linux version ") {
            self.reached.entry(Stage::Kernel).or_insert(at);
        }
        if let Some((_, ours)) = line.split_once(&format!("portbench {} ", self.nonce)) {
            self.ours(ours, at);
        }
        if self.trouble.is_none() {
            self.trouble = trouble(&line);
        }
        self.last = line;
    }

    /// A line that our first process wrote.
    fn ours(&mut self, words: &str, at: Duration) {
        let (word, rest) = words.split_once(' ').unwrap_or((words, ""));
        match word {
            "init" => drop(self.reached.entry(Stage::Init).or_insert(at)),
            "agent" => drop(self.reached.entry(Stage::Agent).or_insert(at)),
            "exit" => self.exit = rest.trim().parse().ok(),
            "failed" => {
                let what = format!("the guest could not go on: {rest}");
                self.trouble.get_or_insert(Trouble { what, memory: false });
            }
            "facts" => {
                self.facts_at = at;
                let pairs = rest.split_whitespace().filter_map(|pair| pair.split_once('='));
                self.facts.extend(pairs.map(|(name, value)| (name.to_string(), value.to_string())));
            }
            _ => {}
        }
    }
}

/// What a line says that went wrong.
fn trouble(line: &str) -> Option<Trouble> {
    let after = |words: &str| line.split_once(words).map(|(_, rest)| rest.trim().to_string());
    if let Some(why) = after("Kernel panic - not syncing: ") {
        let memory = ["memory", "oom"].iter().any(|word| why.to_lowercase().contains(word));
        return Some(Trouble { what: format!("the guest's kernel panicked: {why}"), memory });
    }
    if let Some(rest) = after("Out of memory: Killed process ") {
        let name = rest.split_once('(').and_then(|(_, rest)| Some(rest.split_once(')')?.0));
        let victim = name.unwrap_or("it did not say which");
        // Programs of the bundle are called as their loader is.
        let what = format!("the guest ran out of memory, and its kernel killed a program ({victim})");
        return Some(Trouble { what, memory: true });
    }
    if line.contains("Initramfs unpacking failed: write error") {
        let what = "the guest's memory is too small for its first file system".into();
        return Some(Trouble { what, memory: true });
    }
    None
}

/// A line without escape sequences and control characters, as a person would read it.
fn plain(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut plain = String::new();
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        if character == '\u{1b}' {
            if characters.next_if_eq(&'[').is_some() {
                while characters.next_if(|c| !c.is_ascii_alphabetic()).is_some() {}
            }
            characters.next();
        } else if !character.is_control() {
            plain.push(character);
        }
    }
    plain.trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn console(text: &str) -> Console {
        let mut console = Console::new("n0", Some("SLOF"));
        for (number, byte) in text.bytes().enumerate() {
            console.feed(&[byte], Duration::from_secs(number as u64));
        }
        console
    }

    #[test]
    fn each_stage_is_recognised_by_its_line() {
        let mut console = console("\n\u{1b}[?25l\n");
        assert!(console.is_silent() && console.reached(Stage::Firmware).is_none());
        let told: [(&[u8], Stage); 4] = [
            (b"SLOF\x1b[0m\x1b[?25l ****\n\x1b[1mQEMU Starting\n", Stage::Firmware),
            (b"Preparing to boot Linux version 6.1.0\n", Stage::Kernel),
            (b"[    2.1] Run /init\nportbench n0 init\n", Stage::Init),
            (b"agent: listening at 0.0.0.0:7000\nportbench n0 agent\n", Stage::Agent),
        ];
        for (second, (bytes, stage)) in (100..).zip(told) {
            assert_eq!(console.reached(stage), None, "{stage:?}");
            console.feed(bytes, Duration::from_secs(second));
            assert_eq!(console.reached(stage), Some(Duration::from_secs(second)), "{stage:?}");
        }
        assert_eq!(console.reached(Stage::Firmware), Some(Duration::from_secs(100)));
    }

    #[test]
    fn a_later_stage_stands_for_one_that_said_nothing() {
        let console = console("[0.0] Linux version 6\n");
        assert!(console.reached(Stage::Firmware).is_some() && console.reached(Stage::Init).is_none());
    }

    #[test]
    fn words_with_another_nonce_are_not_ours() {
        let other = console("portbench n1 agent\nportbench n1 exit 0\nportbench n1 failed x\n");
        assert_eq!((other.reached(Stage::Agent), other.exit(), other.trouble()), (None, None, None));
    }

    #[test]
    fn an_exit_code_that_was_not_told_is_not_known() {
        assert_eq!(console("reboot: Power down\n").exit(), None);
        assert_eq!(console("portbench n0 exit 7\n").exit(), Some(7));
        assert_eq!(console("portbench n0 exit 0\n").exit(), Some(0));
        assert_eq!(console("portbench n0 exit \n").exit(), None);
    }

    #[test]
    fn panic_and_lack_of_memory_are_told_in_plain_words() {
        let panic =
            console("[ 1.0] Kernel panic - not syncing: VFS: Unable to mount root fs\n[ 1.1] CPU: 0\n");
        let trouble = panic.trouble().unwrap();
        assert_eq!(trouble.what, "the guest's kernel panicked: VFS: Unable to mount root fs");
        assert!(!trouble.memory);
        let panic = console("Kernel panic - not syncing: System is deadlocked on memory\n");
        assert!(panic.trouble().unwrap().memory);
        let killed = console("[ 9.9] Out of memory: Killed process 81 (mariadbd) total-vm:1kB\n");
        let trouble = killed.trouble().unwrap();
        assert!(trouble.memory && trouble.what.ends_with("killed a program (mariadbd)"), "{trouble:?}");
        let failed = console("portbench n0 failed the module x was not loaded\n");
        assert!(failed.trouble().unwrap().what.ends_with("the module x was not loaded"));
    }

    #[test]
    fn the_last_line_counts_even_if_it_has_not_ended() {
        let console = console("first\n\n\u{1b}[?25hC0000\tC0100");
        assert_eq!(console.last_line(), "C0000C0100");
        assert!(!console.is_silent());
    }

    #[test]
    fn facts_are_read_by_name() {
        let console = console("portbench n0 facts machine=abc page=64 kernel=6.1\n");
        assert_eq!((console.fact("page"), console.fact("kernel")), (Some("64"), Some("6.1")));
        assert_eq!(console.fact("cpus"), None);
        assert_eq!(console.facts_at(), Duration::from_secs(49));
    }

    #[test]
    fn an_endless_line_does_not_fill_memory() {
        let mut console = Console::new("n0", None);
        console.feed(&vec![b'x'; 3 * LONGEST_LINE_BYTES], Duration::ZERO);
        assert!(console.last_line().len() <= LONGEST_LINE_BYTES);
    }
}
