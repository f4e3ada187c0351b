//! For tests: small ELF files of any class and byte order, made of bytes, so that no test needs a compiler.

use std::path::Path;

use crate::tables::target::ByteOrder;

/// What the file is to say.
pub struct Tiny {
    pub class: u32,
    pub order: ByteOrder,
    pub machine: u16,
    pub flags: u32,
    pub interpreter: Option<&'static str>,
    pub needed: Vec<&'static str>,
    pub soname: Option<&'static str>,
    pub runpath: Option<&'static str>,
    /// Library and version.
    pub needs: Vec<(&'static str, &'static str)>,
    pub defines: Vec<&'static str>,
    /// `p_flags` of `PT_GNU_STACK`.
    pub stack: u32,
    pub code: Vec<u8>,
    /// Whether it has section headers.
    pub sections: bool,
}

/// A section or segment in the making.
struct Part {
    name: &'static str,
    section_type: u32,
    section_flags: u64,
    segment: Option<(u32, u32)>,
    info: u32,
    bytes: Vec<u8>,
}

impl Tiny {
    /// A file with nothing in it but code.
    pub fn new(class: u32, order: ByteOrder, machine: u16, flags: u32) -> Self {
        Tiny {
            class,
            order,
            machine,
            flags,
            interpreter: None,
            needed: vec![],
            soname: None,
            runpath: None,
            needs: vec![],
            defines: vec![],
            stack: 6,
            code: vec![0; 16],
            sections: true,
        }
    }

    /// Writes it where a bundle has it.
    pub fn write(&self, path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, self.bytes()).unwrap();
    }

    /// The file.
    pub fn bytes(&self) -> Vec<u8> {
        let parts = self.parts();
        let (header, entry) = if self.class == 64 { (64, 56) } else { (52, 32) };
        let segments = parts.iter().filter(|part| part.segment.is_some()).count();
        let mut body = vec![0; header + entry * segments];
        let mut places = Vec::new();
        for part in &parts {
            body.resize(body.len().next_multiple_of(8), 0);
            places.push(body.len() as u64);
            body.extend(&part.bytes);
        }
        let sections_at = body.len().next_multiple_of(8);
        let programs: Vec<u8> =
            parts.iter().zip(&places).flat_map(|(part, place)| self.program(part, *place)).collect();
        body[header..header + programs.len()].copy_from_slice(&programs);
        let count = if self.sections { parts.len() + 1 } else { 0 };
        let start = self.header(sections_at as u64, segments, count);
        body[..header].copy_from_slice(&start);
        if self.sections {
            body.resize(sections_at, 0);
            body.extend(vec![0; if self.class == 64 { 64 } else { 40 }]);
            let mut name = 1;
            for (part, place) in parts.iter().zip(&places) {
                body.extend(self.section(part, name, *place));
                name += part.name.len() as u32 + 1;
            }
        }
        body
    }

    fn number(&self, value: u64, bytes: usize) -> Vec<u8> {
        match self.order {
            ByteOrder::Big => value.to_be_bytes()[8 - bytes..].to_vec(),
            ByteOrder::Little => value.to_le_bytes()[..bytes].to_vec(),
        }
    }

    fn half(&self, value: u64) -> Vec<u8> {
        self.number(value, 2)
    }

    fn word(&self, value: u64) -> Vec<u8> {
        self.number(value, 4)
    }

    /// An address-sized number.
    fn long(&self, value: u64) -> Vec<u8> {
        self.number(value, self.class as usize / 8)
    }

    fn header(&self, sections_at: u64, segments: usize, sections: usize) -> Vec<u8> {
        let big = self.order == ByteOrder::Big;
        let (class, sizes) = if self.class == 64 { (2, [64, 56, 64]) } else { (1, [52, 32, 40]) };
        let mut all = vec![0x7f, b'E', b'L', b'F', class, 1 + u8::from(big), 1];
        all.resize(16, 0);
        all.extend([self.half(3), self.half(self.machine.into()), self.word(1)].concat());
        let sections_at = if sections == 0 { 0 } else { sections_at };
        all.extend([self.long(0), self.long(sizes[0]), self.long(sections_at)].concat());
        all.extend(self.word(self.flags.into()));
        let names = sections.saturating_sub(1) as u64;
        for half in [sizes[0], sizes[1], segments as u64, sizes[2], sections as u64, names] {
            all.extend(self.half(half));
        }
        all
    }

    fn program(&self, part: &Part, place: u64) -> Vec<u8> {
        let Some((kind, flags)) = part.segment else { return vec![] };
        let (kind, flags, size) =
            (self.word(kind.into()), self.word(flags.into()), self.long(part.bytes.len() as u64));
        let places = [self.long(place), self.long(place), self.long(place)].concat();
        let sizes = [size.clone(), size].concat();
        if self.class == 64 {
            [kind, flags, places, sizes, self.long(8)].concat()
        } else {
            [kind, places, sizes, flags, self.long(8)].concat()
        }
    }

    fn section(&self, part: &Part, name: u32, place: u64) -> Vec<u8> {
        let begin = [self.word(name.into()), self.word(part.section_type.into())].concat();
        let size = part.bytes.len() as u64;
        let longs = [part.section_flags, place, place, size].map(|long| self.long(long)).concat();
        // All strings are in section 1.
        let link = [self.word(1), self.word(part.info.into())].concat();
        [begin, longs, link, self.long(8), self.long(0)].concat()
    }

    fn parts(&self) -> Vec<Part> {
        let mut strings = vec![0];
        let mut add = |text: &str| {
            let at = strings.len() as u64;
            strings.extend(text.bytes().chain([0]));
            at
        };
        let mut dynamic = Vec::new();
        for (tag, text) in self.dynamic() {
            dynamic.extend([self.long(tag), self.long(add(text))].concat());
        }
        let dynamic_is_empty = dynamic.is_empty();
        dynamic.extend([self.long(0), self.long(0)].concat());
        let (verneed, verdef) = (self.verneed(&mut add), self.verdef(&mut add));
        let part = |name, section_type, info: usize, bytes| Part {
            name,
            section_type,
            section_flags: 0,
            segment: None,
            info: info as u32,
            bytes,
        };
        let mut parts = vec![part(".dynstr", 3, 0, strings)];
        parts.push(Part {
            section_flags: 6,
            segment: Some((1, 5)),
            ..part(".text", 1, 0, self.code.clone())
        });
        parts.push(Part { segment: Some((0x6474_e551, self.stack)), ..part(".stack", 1, 0, vec![]) });
        if let Some(path) = self.interpreter {
            let bytes = path.bytes().chain([0]).collect();
            parts.push(Part { segment: Some((3, 4)), ..part(".interp", 1, 0, bytes) });
        }
        if !dynamic_is_empty {
            parts.push(Part { segment: Some((2, 6)), ..part(".dynamic", 6, 0, dynamic) });
        }
        if !self.needs.is_empty() {
            parts.push(part(".gnu.version_r", 0x6fff_fffe, self.needs.len(), verneed));
        }
        if !self.defines.is_empty() {
            parts.push(part(".gnu.version_d", 0x6fff_fffd, self.defines.len(), verdef));
        }
        let mut names = vec![0];
        for name in parts.iter().map(|part| part.name).chain([".shstrtab"]) {
            names.extend(name.bytes().chain([0]));
        }
        parts.push(part(".shstrtab", 3, 0, names));
        parts
    }

    fn dynamic(&self) -> Vec<(u64, &'static str)> {
        let needed = self.needed.iter().map(|name| (1, *name));
        needed.chain(self.soname.map(|name| (14, name))).chain(self.runpath.map(|path| (29, path))).collect()
    }

    fn verneed(&self, add: &mut impl FnMut(&str) -> u64) -> Vec<u8> {
        let mut all = Vec::new();
        for (index, (library, version)) in self.needs.iter().enumerate() {
            let next = if index + 1 == self.needs.len() { 0 } else { 32 };
            all.extend([self.half(1), self.half(1), self.word(add(library))].concat());
            all.extend([self.word(16), self.word(next)].concat());
            all.extend([self.word(0), self.half(0), self.half(2), self.word(add(version))].concat());
            all.extend(self.word(0));
        }
        all
    }

    fn verdef(&self, add: &mut impl FnMut(&str) -> u64) -> Vec<u8> {
        let mut all = Vec::new();
        for (index, version) in self.defines.iter().enumerate() {
            let next = if index + 1 == self.defines.len() { 0 } else { 28 };
            all.extend([self.half(1), self.half(0), self.half(2), self.half(1)].concat());
            all.extend([self.word(0), self.word(20), self.word(next)].concat());
            all.extend([self.word(add(version)), self.word(0)].concat());
        }
        all
    }
}
