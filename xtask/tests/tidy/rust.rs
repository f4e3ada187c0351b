//! As much of Rust's grammar as the checks need, for sources that rustfmt has formatted.

/// What a stretch of a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Anything else.
    Code,
    /// A comment, documentation included.
    Comment,
    /// A string literal, with its quotes.
    Text,
}

/// A stretch of a source.
pub type Piece<'a> = (Kind, &'a str);

/// Cuts a source into code, comments and string literals.
pub fn pieces(source: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let (mut code, mut at) = (0, 0);
    while at < source.len() {
        let rest = &source[at..];
        let after_name = source[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        match special(rest, after_name) {
            Some((Kind::Code, length)) => at += length,
            Some((kind, length)) => {
                pieces.push((Kind::Code, &source[code..at]));
                pieces.push((kind, &rest[..length]));
                at += length;
                code = at;
            }
            None => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    pieces.push((Kind::Code, &source[code..]));
    pieces.retain(|(_, text)| !text.is_empty());
    pieces
}

/// What begins here, with its length in bytes; `Code` for a character literal, which may be a quote.
fn special(rest: &str, after_name: bool) -> Option<(Kind, usize)> {
    let until =
        |end: &str, from: usize| rest[from..].find(end).map_or(rest.len(), |at| from + at + end.len());
    if rest.starts_with("//") {
        return Some((Kind::Comment, rest.find('\n').unwrap_or(rest.len())));
    }
    if rest.starts_with("/*") {
        return Some((Kind::Comment, until("*/", 2)));
    }
    if rest.starts_with('"') {
        return Some((Kind::Text, quoted(rest, '"')));
    }
    let hashes = rest.strip_prefix('r').map(|rest| rest.len() - rest.trim_start_matches('#').len());
    if let Some(hashes) = hashes.filter(|&n| rest[1 + n..].starts_with('"') && !after_name) {
        return Some((Kind::Text, until(&format!("\"{}", "#".repeat(hashes)), hashes + 2)));
    }
    let mut characters = rest.chars();
    let literal = match (characters.next(), characters.next(), characters.next()) {
        (Some('\''), Some('\\'), _) => true,
        (Some('\''), Some(_), Some('\'')) => true,
        // Otherwise a lifetime.
        _ => false,
    };
    literal.then(|| (Kind::Code, quoted(rest, '\'')))
}

/// Length of what begins with a quote and ends with the next that no `\` stands before.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    rest.len()
}

/// The source with every `#[cfg(test)]` module in it emptied; lines keep their numbers.
pub fn without_tests(source: &str) -> String {
    let mut kept = String::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let module = lines.peek().is_some_and(|next| next.trim_start().starts_with("mod "));
        if line.trim() != "#[cfg(test)]" || !module {
            kept.push_str(line);
            kept.push('\n');
            continue;
        }
        kept.push_str("\n\n");
        let opens = lines.next().is_some_and(|next| next.ends_with('{'));
        let end = format!("{}}}", indent(line));
        while opens && lines.next_if(|next| *next != end).is_some() {
            kept.push('\n');
        }
        if opens {
            kept.push('\n');
            lines.next();
        }
    }
    kept
}

/// Names of the modules that are compiled for tests only and stand in files of their own.
pub fn test_modules(source: &str) -> Vec<&str> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let pairs = lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]");
    pairs.filter_map(|pair| pair[1].strip_prefix("mod ")?.strip_suffix(';')).collect()
}

/// The functions, each with the number of its first line and its lines.
pub fn functions(source: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = source.lines().collect();
    let mut found = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let same = |end: &str| format!("{}{end}", indent(line));
        let (closed, declared) = (same("}"), same(")"));
        let ends = |l: &&str| *l == closed || l.starts_with(&declared) && l.ends_with(';');
        let one_line = line.ends_with('}') || line.ends_with(';');
        let more = lines[number..].iter().position(ends).filter(|_| !one_line).unwrap_or(0);
        found.push((name.to_string(), number + 1, more + 1));
    }
    found
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let (before, rest) = line.split_once("fn ")?;
    let words = before.split_whitespace();
    let modifier =
        |word: &str| word.starts_with("pub") || ["const", "async", "extern", "\"C\""].contains(&word);
    let name = rest.split(|c: char| !(c.is_alphanumeric() || c == '_')).next()?;
    (words.into_iter().all(modifier) && !name.is_empty()).then_some(name)
}

fn indent(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(source: &str) -> Vec<&str> {
        pieces(source).into_iter().filter(|(kind, _)| *kind == Kind::Text).map(|(_, text)| text).collect()
    }

    #[test]
    fn strings_comments_and_quotes_are_told_apart() {
        assert_eq!(
            texts(r##"a("x\"y", r#"raw " text"#, 'c', '"', '\'') // "no" "##),
            ["\"x\\\"y\"", "r#\"raw \" text\"#"]
        );
        assert_eq!(texts("fn f<'a>(x: &'a str) { \"s\" } /* \"no\" */"), ["\"s\""]);
        assert_eq!(texts("for \"x\""), ["\"x\""]);
        let whole: String = pieces("a \"b\" // c\nd").into_iter().map(|(_, text)| text).collect();
        assert_eq!(whole, "a \"b\" // c\nd");
    }

    #[test]
    fn test_modules_are_left_out_and_lines_keep_their_numbers() {
        let source =
            "a\n#[cfg(test)]\nmod tests {\n    b\n}\nc\n#[cfg(test)]\nmod more;\n#[cfg(test)]\nfn d() {}\n";
        assert_eq!(without_tests(source), "a\n\n\n\n\nc\n\n\n#[cfg(test)]\nfn d() {}\n");
        assert_eq!(test_modules(source), ["more"]);
    }

    #[test]
    fn functions_are_measured_to_their_brace() {
        let source = "trait T {\n    fn one(&self);\n    fn two(\n        &self,\n    ) -> u8;\n}\n\npub(super) fn three() {\n    x\n}\nfn four() {}\n";
        let found: Vec<(String, usize)> =
            functions(source).into_iter().map(|(name, _, n)| (name, n)).collect();
        let expected = [("one", 1), ("two", 3), ("three", 3), ("four", 1)];
        assert_eq!(found, expected.map(|(name, n)| (name.to_string(), n)));
    }
}
