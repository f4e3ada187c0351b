//! A patch's header: fields as DEP-3 has them, <https://dep-team.pages.debian.net/deps/dep3/>.

use serde::Serialize;

/// What a patch says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Header {
    /// What it does: the first line, then what goes wrong without it.
    pub description: String,
    /// Who wrote it.
    pub author: Option<String>,
    /// Where it comes from, where it is not ours.
    pub origin: Option<String>,
    /// The report that it answers.
    pub bug: Option<String>,
    /// The report upstream, or `no`, or `not-needed`.
    pub forwarded: Option<String>,
    /// The upstream version or commit that has it.
    pub applied_upstream: Option<String>,
    /// When it was last looked at, e.g. `2026-11-30`.
    pub last_update: Option<String>,
    /// Targets that it is for; empty: all.
    pub targets: Vec<String>,
}

/// The fields, and others by which they may be called.
const FIELDS: [&str; 11] = [
    "Description",
    "Subject",
    "Author",
    "From",
    "Origin",
    "Bug",
    "Forwarded",
    "Applied-Upstream",
    "Last-Update",
    "Reviewed-by",
    "X-Targets",
];

/// A complaint: line, from 1, and what is wrong there.
pub type Complaint = (usize, String);

/// Reads a header. What is wrong with it comes beside what could be read.
pub fn read(text: &str, targets: &[String]) -> (Header, Vec<Complaint>) {
    let mut header = Header::default();
    let mut wrong = Vec::new();
    for (line, name, value) in fields(text, &mut wrong) {
        let put = |place: &mut Option<String>| *place = Some(value.clone());
        match name.as_str() {
            "Description" | "Subject" => header.description = value,
            "Author" | "From" => put(&mut header.author),
            "Origin" => put(&mut header.origin),
            "Forwarded" => put(&mut header.forwarded),
            "Applied-Upstream" => put(&mut header.applied_upstream),
            "Last-Update" => put(&mut header.last_update),
            "X-Targets" => {
                header.targets =
                    value.split([' ', ',']).filter(|word| !word.is_empty()).map(String::from).collect();
                let unknown = header.targets.iter().filter(|name| !targets.contains(name));
                wrong.extend(unknown.map(|name| (line, format!("X-Targets: there is no target `{name}`"))));
            }
            "Reviewed-by" => {}
            name if name == "Bug" || name.starts_with("Bug-") => put(&mut header.bug),
            name => {
                let near = crate::failure::nearest(name, &FIELDS.map(String::from)).into_iter().next();
                let hint = near.map(|near| format!("; did you mean {near}:?")).unwrap_or_default();
                wrong.push((line, format!("{name}: is no field of DEP-3{hint}")));
            }
        }
    }
    wrong.extend(missing(&header).into_iter().map(|what| (1, what.to_string())));
    (header, wrong)
}

/// The fields: line, name, value; lines that begin with a blank continue one.
fn fields(text: &str, wrong: &mut Vec<Complaint>) -> Vec<(usize, String, String)> {
    let mut all: Vec<(usize, String, String)> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.starts_with("---") {
            break;
        }
        if line.trim().is_empty() {
            continue;
        }
        if line.starts_with([' ', '\t']) {
            match all.last_mut() {
                Some((_, _, value)) => *value += &format!("\n{}", line.trim()),
                None => wrong.push((at + 1, "a line that continues no field".into())),
            }
            continue;
        }
        let name =
            |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
        match line.split_once(':').filter(|(field, _)| name(field)) {
            Some((field, value)) => all.push((at + 1, field.into(), value.trim().into())),
            None => wrong.push((at + 1, "neither a field nor, with a blank before it, more of one".into())),
        }
    }
    all
}

fn missing(header: &Header) -> Vec<&'static str> {
    let address = |text: &str| text.starts_with("https://") || text.starts_with("http://");
    let forwarded = |text: &String| ["no", "not-needed"].contains(&text.as_str()) || address(text);
    let date = |text: &String| text.parse::<jiff::civil::Date>().is_ok();
    let mut all = Vec::new();
    if header.description.trim().is_empty() {
        all.push("Description: is missing: say what it does, then what goes wrong without it");
    }
    if header.author.is_none() && header.origin.is_none() {
        all.push("Author: or Origin: is missing: say who wrote it, or where it comes from");
    }
    if !header.forwarded.as_ref().is_some_and(forwarded) {
        all.push("Forwarded: is missing or wrong: `no`, `not-needed`, or the address of the report upstream");
    }
    if !header.last_update.as_ref().is_some_and(date) {
        all.push("Last-Update: is missing or no date like 2026-11-30");
    }
    all
}

impl Header {
    /// Its description's first line.
    pub fn subject(&self) -> &str {
        self.description.lines().next().unwrap_or_default()
    }

    /// Whether it concerns a target.
    pub fn concerns(&self, target: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|name| name == target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "Description: mend it\n Without it all is lost.\nAuthor: A <a@example.org>\nForwarded: no\nLast-Update: 2026-11-30\nX-Targets: ppc64, ppc64le\n---\nwords";

    fn complaints(text: &str) -> String {
        let all = read(text, &["ppc64".into(), "ppc64le".into()]).1;
        all.into_iter().map(|(line, what)| format!("{line}: {what}\n")).collect()
    }

    #[test]
    fn a_good_header_is_read() {
        assert_eq!(complaints(GOOD), "");
        let (header, _) = read(GOOD, &["ppc64".into(), "ppc64le".into()]);
        assert_eq!((header.subject(), header.description.lines().count()), ("mend it", 2));
        assert!(header.concerns("ppc64") && !header.concerns("x86_64"));
    }

    #[test]
    fn what_is_missing_or_wrong_is_told() {
        for (from, to, said) in [
            ("Description: mend it\n Without it all is lost.\n", "", "1: Description: is missing"),
            ("Author: A <a@example.org>\n", "", "1: Author: or Origin: is missing"),
            ("Forwarded: no", "Forwarded: maybe", "1: Forwarded: is missing or wrong"),
            ("2026-11-30", "2026-31-11", "1: Last-Update: is missing or no date"),
            ("ppc64, ppc64le", "ppc65", "6: X-Targets: there is no target `ppc65`"),
            ("Forwarded:", "Forwardet:", "4: Forwardet: is no field of DEP-3; did you mean Forwarded:?"),
            ("Description: mend", "mend", "1: neither a field"),
        ] {
            let all = complaints(&GOOD.replace(from, to));
            assert!(all.contains(said), "{said}: {all}");
        }
    }
}
