//! One line of what `objdump -d --no-show-raw-insn` prints.

/// What a line says.
#[derive(Debug, PartialEq, Eq)]
pub enum Line<'a> {
    /// The instructions of a section follow.
    Section(&'a [u8]),
    /// The instructions behind a symbol follow.
    Symbol(&'a [u8]),
    /// An instruction, or data that is none.
    Word {
        /// Its address.
        address: u64,
        /// The disassembly.
        text: &'a [u8],
    },
    /// Anything else: a title, an empty line, `...` for a run of zeros.
    Other,
}

/// Reads one line, without its line end. Of a server there are millions: nothing is copied.
pub fn parse(line: &[u8]) -> Line<'_> {
    if let Some(section) = line.strip_prefix(b"Disassembly of section ") {
        return Line::Section(section.strip_suffix(b":").unwrap_or(section));
    }
    let begin = line.iter().position(|byte| *byte != b' ').unwrap_or(0);
    let Some((address, end)) = hexadecimal(line, begin) else { return Line::Other };
    match &line[end..] {
        [b':', b'\t', text @ ..] => Line::Word { address, text },
        [b' ', b'<', name @ .., b'>', b':'] => Line::Symbol(name),
        _ => Line::Other,
    }
}

/// The number that begins at `begin`, and where it ends.
fn hexadecimal(line: &[u8], begin: usize) -> Option<(u64, usize)> {
    let mut number: u64 = 0;
    let mut end = begin;
    while let Some(digit) = line.get(end).and_then(|byte| (*byte as char).to_digit(16)) {
        // Longer than an address: not one.
        number = number.checked_mul(16)? | u64::from(digit);
        end += 1;
    }
    (end > begin).then_some((number, end))
}

/// Whether the disassembler knew no instruction for the bytes, and shows them as data: `.long 0x0`, `(bad)`.
pub fn is_unknown(text: &[u8]) -> bool {
    text.starts_with(b".") || text.starts_with(b"(bad)")
}

/// The first word of a disassembly.
pub fn mnemonic(text: &[u8]) -> String {
    let end = text.iter().position(|byte| byte.is_ascii_whitespace()).unwrap_or(text.len());
    String::from_utf8_lossy(&text[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_line_is_told_from_the_others() {
        assert_eq!(parse(b"Disassembly of section .text:"), Line::Section(b".text"));
        assert_eq!(parse(b"0000000000000030 <v>:"), Line::Symbol(b"v"));
        assert_eq!(parse(b"000000000000cafe <a<b>@@V_1-0x10>:"), Line::Symbol(b"a<b>@@V_1-0x10"));
        let word = Line::Word { address: 0x30, text: b".long 0xf4430019" };
        assert_eq!(parse(b"  30:\t.long 0xf4430019"), word);
        for other in [&b"\t..."[..], b"", b"bin/x:     file format elf64-powerpcle", b"ffff", b"  "] {
            assert_eq!(parse(other), Line::Other, "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn addresses_that_fill_the_column_have_no_space_before_them() {
        let line = b"ffffffffffffffff:\tnop";
        assert_eq!(parse(line), Line::Word { address: u64::MAX, text: b"nop" });
        assert_eq!(parse(b"1ffffffffffffffff:\tnop"), Line::Other);
    }

    #[test]
    fn data_is_told_from_instructions() {
        assert!(is_unknown(b".long 0x4100000") && is_unknown(b"(bad)"));
        assert!(!is_unknown(b"pld     r10,0\t# 0 <a>"));
        assert_eq!(mnemonic(b"pld     r10,0"), "pld");
        assert_eq!(mnemonic(b"phwsync"), "phwsync");
    }
}
