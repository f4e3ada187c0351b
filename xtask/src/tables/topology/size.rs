//! Amounts of memory as NDB writes them: `200M`, `16G`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// An amount in bytes, with the text that it was written as.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size {
    text: String,
    bytes: u64,
}

impl Size {
    /// In bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.trim_end_matches(['K', 'M', 'G', 'T']);
        let shift = match &text[digits.len()..] {
            "" => 0,
            "K" => 10,
            "M" => 20,
            "G" => 30,
            "T" => 40,
            _ => 64,
        };
        let number = digits.parse::<u64>().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()));
        let bytes = number.and_then(|number| number.checked_mul(1u64.checked_shl(shift)?));
        match bytes {
            Some(bytes) => Ok(Size { text: text.into(), bytes }),
            None => Err(format!("`{text}` is no amount of memory; write it like 200M or 16G")),
        }
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> String {
        size.text
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Bytes for people: `1.5 GiB`, `200 MiB`.
pub fn shown(bytes: u64) -> String {
    let of = |shift: u32| bytes as f64 / (1_u64 << shift) as f64;
    match bytes {
        0x100_0000_0000.. => format!("{:.1} TiB", of(40)),
        0x4000_0000.. => format!("{:.1} GiB", of(30)),
        _ => format!("{} MiB", bytes.div_ceil(1 << 20)),
    }
}
