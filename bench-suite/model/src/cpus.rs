//! Lists of CPUs, and of NUMA nodes, as kernels and people write them: `0-3,8`.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The highest number that is believed: far above what Linux can be configured for, so that a slip of the finger
/// costs no memory.
const HIGHEST: u32 = 65_535;

/// Numbers of CPUs or of NUMA nodes. A kernel may say that there is none; people who ask for some must name one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
pub struct CpuList(BTreeSet<u32>);

impl CpuList {
    /// Reads what a kernel says; `None` where that is no list. A node without CPUs has an empty one.
    pub fn of_kernel(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.is_empty() { Some(CpuList::default()) } else { text.parse().ok() }
    }

    /// Whether it holds `number`.
    pub fn contains(&self, number: u32) -> bool {
        self.0.contains(&number)
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many it holds.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Those of this list that `other` lacks.
    pub fn without(&self, other: &CpuList) -> CpuList {
        CpuList(self.0.difference(&other.0).copied().collect())
    }

    /// Whether some number is in both.
    pub fn overlaps(&self, other: &CpuList) -> bool {
        self.0.intersection(&other.0).next().is_some()
    }
}

impl FromIterator<u32> for CpuList {
    fn from_iter<I: IntoIterator<Item = u32>>(numbers: I) -> Self {
        CpuList(numbers.into_iter().collect())
    }
}

impl FromStr for CpuList {
    type Err = String;

    /// Numbers and ranges, separated by commas; at least one.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut numbers = BTreeSet::new();
        for part in text.split(',').map(str::trim) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first, text)?, number(last, text)?);
            if first > last {
                return Err(format!("`{part}` is no range: its first number is above its last"));
            }
            numbers.extend(first..=last);
        }
        Ok(CpuList(numbers))
    }
}

fn number(text: &str, whole: &str) -> Result<u32, String> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits && number <= HIGHEST => Ok(number),
        _ => Err(format!("`{whole}` is no list of numbers up to {HIGHEST}; write it like 0-3,8")),
    }
}

impl fmt::Display for CpuList {
    /// As the kernel writes it, neighbours as a range.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut numbers = self.0.iter().copied().peekable();
        let mut separator = "";
        while let Some(first) = numbers.next() {
            let mut last = first;
            while let Some(next) = numbers.next_if(|next| *next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                _ => write!(f, "{separator}{first}-{last}")?,
            }
            separator = ",";
        }
        Ok(())
    }
}

impl TryFrom<String> for CpuList {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        CpuList::of_kernel(&text).ok_or_else(|| format!("`{text}` is no list of CPUs"))
    }
}

impl From<CpuList> for String {
    fn from(list: CpuList) -> String {
        list.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> CpuList {
        text.parse().unwrap()
    }

    #[test]
    fn a_list_is_written_as_kernels_write_it() {
        for (given, written) in
            [("0-3,8", "0-3,8"), ("8,0-1,2, 3", "0-3,8"), ("5", "5"), ("0,1", "0-1"), ("2,2", "2")]
        {
            assert_eq!(list(given).to_string(), written);
        }
        assert_eq!(CpuList::of_kernel("\n"), Some(CpuList::default()));
        assert_eq!(CpuList::of_kernel("0-7\n"), Some((0..8).collect()));
        assert_eq!(CpuList::of_kernel("none"), None);
    }

    #[test]
    fn what_is_no_list_is_refused_with_how_to_write_one() {
        for wrong in ["", ",", "0,", "a", "-1", "0-", "0x1", "+1", "0-99999999", "4294967296"] {
            let message = wrong.parse::<CpuList>().unwrap_err();
            assert!(message.contains("like 0-3,8"), "{wrong}: {message}");
        }
        assert!("3-1".parse::<CpuList>().unwrap_err().contains("first number is above its last"));
    }

    #[test]
    fn lists_are_compared() {
        assert!(list("0-3").contains(3) && !list("0-3").contains(4));
        assert_eq!(list("0-3,9").without(&list("0-2")).to_string(), "3,9");
        assert!(list("0-3").overlaps(&list("3,8")) && !list("0-3").overlaps(&list("4-7")));
        assert_eq!((list("0-3,9").count(), CpuList::default().is_empty()), (5, true));
    }

    #[test]
    fn a_list_is_a_string_in_json() {
        assert_eq!(serde_json::to_string(&list("0,1")).unwrap(), r#""0-1""#);
        assert_eq!(serde_json::from_str::<CpuList>(r#""""#).unwrap(), CpuList::default());
        assert!(serde_json::from_str::<CpuList>(r#""x""#).is_err());
    }
}
