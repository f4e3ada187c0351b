//! NDB's own error codes and words, in plain ones.

use crate::failure::Kind;

/// What is wrong.
#[derive(Clone, Copy)]
pub struct Cause {
    /// In plain words.
    pub plain: &'static str,
    /// What to do.
    pub next: &'static str,
    /// Its kind, where it is none of a node that died for itself.
    pub kind: Option<Kind>,
    /// Whether it only follows from another node's error.
    pub follows: bool,
}

const fn root(plain: &'static str, next: &'static str) -> Cause {
    Cause { plain, next, kind: None, follows: false }
}

const fn follow(plain: &'static str) -> Cause {
    Cause { plain, next: "read the logs of the other nodes", kind: None, follows: true }
}

const MEMORY: Cause =
    root("memory is exhausted", "ask for less in the topology's [memory], or use a machine with more");
const FULL: Cause = Cause {
    plain: "the disk is full",
    next: "free some space, or name a folder on a larger disk with --data",
    kind: Some(Kind::DiskFull),
    follows: false,
};
const OLD_DATA: Cause = root(
    "the data in its folder does not fit its configuration",
    "take back what was changed in the topology, or name another folder with --data",
);
const SLOW: Cause =
    root("the machine is too slow for the watchdog", "raise `watchdog-ms` in the topology's [limits]");
const REDO: Cause = root("the redo log is full", "raise `fragment-log-files` in the topology's [redo-log]");

/// NDB's codes, as a data node's error log has them.
const CODES: [(u32, Cause); 22] = [
    (2303, follow("another node ended it")),
    (2305, follow("it lost the other nodes")),
    (2307, follow("it was parted from the other nodes")),
    (2308, follow("another node failed while the cluster started")),
    (2309, follow("the other nodes had not seen its end")),
    (2310, OLD_DATA),
    (2313, OLD_DATA),
    (2315, follow("the other nodes declared it dead")),
    (2327, MEMORY),
    (2350, root("it cannot run with its configuration", "mend the topology")),
    (2351, MEMORY),
    (2352, OLD_DATA),
    (2353, follow("too few data nodes came up")),
    (2354, REDO),
    (2810, FULL),
    (2811, root("it may not use its files", "see to the folder's rights")),
    (2815, OLD_DATA),
    (2816, OLD_DATA),
    (6050, SLOW),
    (6302, follow("all nodes of a node group are gone")),
    (6303, root("the data memory is too small for its data", "raise `data-memory` in the topology")),
    (6304, root("the data memory is too small for its data", "raise `data-memory` in the topology")),
];

/// What nodes write that end without a code.
const WORDS: [(&str, Cause); 11] = [
    ("No space left on device", FULL),
    ("Unable to alloc requested memory from OS", MEMORY),
    ("out of job buffer", MEMORY),
    ("Memory allocation failure", MEMORY),
    ("Cannot allocate memory", MEMORY),
    ("std::bad_alloc", MEMORY),
    ("Address already in use", PORT),
    ("Unable to setup management service port", PORT),
    ("Unable to setup transporter service port", PORT),
    ("Failed to bind port", PORT),
    ("Could not load configuration from", CONFIG),
];

const PORT: Cause = Cause {
    plain: "its port is in use",
    next: "choose another `port` in the topology, or leave it out",
    kind: Some(Kind::PortInUse),
    follows: false,
};
const CONFIG: Cause = Cause {
    plain: "the configuration is refused",
    next: "mend that parameter in the topology",
    kind: Some(Kind::Usage),
    follows: false,
};

/// Of a code.
pub fn of_code(code: u32) -> Option<Cause> {
    CODES.iter().find(|(known, _)| *known == code).map(|(_, cause)| *cause)
}

/// Of a log's lines: the cause, and the line.
pub fn of_words(log: &str) -> Option<(Cause, &str)> {
    log.lines().find_map(|line| {
        let (_, cause) = WORDS.iter().find(|(words, _)| line.contains(words))?;
        Some((*cause, line))
    })
}
