//! What the headers and the dynamic section of one ELF file say.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use object::elf::{
    self, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, FileHeader32, FileHeader64, PF_X, PT_DYNAMIC,
    PT_GNU_STACK, PT_LOAD, SHF_EXECINSTR, SHT_NOBITS,
};
use object::read::ReadCache;
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionHeader, SectionTable};
use object::{Endianness, FileKind, ReadRef};

use crate::tables::target::ByteOrder;

/// One ELF file.
#[derive(Debug)]
pub struct File {
    /// 32 or 64.
    pub class: u32,
    /// Byte order.
    pub byte_order: ByteOrder,
    /// `e_machine`.
    pub machine: u16,
    /// `e_flags`.
    pub flags: u32,
    /// `PT_INTERP`: programs, and libraries that are programs too.
    pub interpreter: Option<String>,
    /// `DT_NEEDED`.
    pub needed: Vec<String>,
    /// `DT_SONAME`.
    pub soname: Option<String>,
    /// The folders in `DT_RPATH` and `DT_RUNPATH`.
    pub search: Vec<String>,
    /// Versions that other libraries must define.
    pub versions: Vec<Needed>,
    /// Versions that it defines itself.
    pub defined: Vec<String>,
    /// Whether it asks for a stack that can be executed.
    pub executable_stack: bool,
}

/// A version of symbols that a file needs of a library.
#[derive(Debug, PartialEq, Eq)]
pub struct Needed {
    /// The library, as `DT_NEEDED` names it.
    pub library: String,
    /// The version, e.g. `GLIBC_2.34`.
    pub version: String,
}

/// Bytes of a section that holds instructions.
pub struct Code {
    /// The section's name.
    pub section: String,
    /// Where it is in memory.
    pub address: u64,
    /// What it holds.
    pub bytes: Vec<u8>,
}

impl Code {
    /// Whether an address is in it.
    pub fn contains(&self, address: u64) -> bool {
        address.checked_sub(self.address).is_some_and(|offset| offset < self.bytes.len() as u64)
    }
}

/// Why a file is not a whole ELF file.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Corrupt(String);

impl From<object::Error> for Corrupt {
    fn from(error: object::Error) -> Self {
        Corrupt(error.to_string())
    }
}

type Parsed<T> = Result<T, Corrupt>;
type Data = ReadCache<fs::File>;

impl File {
    /// Reads the headers of a file; the inner result says what is wrong with its contents.
    pub fn read(path: &Path) -> Result<Parsed<Self>> {
        Ok(each_class(&open(path)?, facts::<FileHeader32<Endianness>>, facts::<FileHeader64<Endianness>>))
    }

    /// All versions that it needs of others.
    pub fn versions_needed(&self) -> impl Iterator<Item = &str> {
        self.versions.iter().map(|needed| needed.version.as_str())
    }
}

/// The bytes of all sections with instructions, of a file that [`File::read`] found to be whole.
pub fn code(path: &Path) -> Result<Vec<Code>> {
    let data = open(path)?;
    each_class(&data, code_of::<FileHeader32<Endianness>>, code_of::<FileHeader64<Endianness>>)
        .with_context(|| format!("cannot read {}", path.display()))
}

fn open(path: &Path) -> Result<Data> {
    // Read in parts: a server with debug information is hundreds of megabytes, its headers are not.
    Ok(ReadCache::new(fs::File::open(path).with_context(|| format!("cannot read {}", path.display()))?))
}

fn each_class<'d, T>(
    data: &'d Data,
    class32: impl Fn(&'d Data) -> Parsed<T>,
    class64: impl Fn(&'d Data) -> Parsed<T>,
) -> Parsed<T> {
    match FileKind::parse(data)? {
        FileKind::Elf32 => class32(data),
        FileKind::Elf64 => class64(data),
        other => Err(Corrupt(format!("it is no ELF file but {other:?}"))),
    }
}

fn facts<H: FileHeader<Endian = Endianness>>(data: &Data) -> Parsed<File> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let mut file = File {
        class: if header.is_class_64() { 64 } else { 32 },
        byte_order: if endian == Endianness::Big { ByteOrder::Big } else { ByteOrder::Little },
        machine: header.e_machine(endian),
        flags: header.e_flags(endian),
        interpreter: None,
        needed: Vec::new(),
        soname: None,
        search: Vec::new(),
        versions: Vec::new(),
        defined: Vec::new(),
        executable_stack: false,
    };
    let shown = segments(header, endian, data, &mut file)?;
    let sections = header.sections(endian, data)?;
    whole(&sections, endian, data)?;
    // What the loader sees through segments must be visible in sections too: they are what is checked.
    let executable = |section| is_code::<H>(section, endian);
    if shown.dynamic && sections.dynamic(endian, data)?.is_none()
        || shown.code && !sections.iter().any(executable)
    {
        return Err(Corrupt("its section headers are gone, so it cannot be checked; keep them".into()));
    }
    dynamic_section(&sections, endian, data, &mut file)?;
    versions(&sections, endian, data, &mut file)?;
    Ok(file)
}

/// What the loader will see of a file.
#[derive(Default)]
struct Shown {
    dynamic: bool,
    code: bool,
}

/// Reads what the program headers say.
fn segments<'d, H: FileHeader<Endian = Endianness>>(
    header: &'d H,
    endian: Endianness,
    data: &'d Data,
    file: &mut File,
) -> Parsed<Shown> {
    let mut shown = Shown::default();
    for segment in header.program_headers(endian, data)? {
        if let Some(path) = segment.interpreter(endian, data)? {
            file.interpreter = Some(text(path));
        }
        let executable = segment.p_flags(endian) & PF_X != 0;
        match segment.p_type(endian) {
            PT_LOAD => {
                inside(Some(segment.file_range(endian)), data, "a segment")?;
                shown.code |= executable;
            }
            PT_GNU_STACK => file.executable_stack = executable,
            PT_DYNAMIC => shown.dynamic = true,
            _ => {}
        }
    }
    Ok(shown)
}

/// Every section's bytes are in the file.
fn whole<'d, H: FileHeader<Endian = Endianness>>(
    sections: &SectionTable<'d, H, &'d Data>,
    endian: Endianness,
    data: &'d Data,
) -> Parsed<()> {
    for section in sections.iter() {
        let name = text(sections.section_name(endian, section)?);
        inside(section.file_range(endian), data, &format!("section {name}"))?;
    }
    Ok(())
}

fn inside(range: Option<(u64, u64)>, data: &Data, what: &str) -> Parsed<()> {
    let Some((begin, size)) = range else { return Ok(()) };
    let end = data.len().map_err(|()| Corrupt("its length cannot be read".into()))?;
    match begin.checked_add(size) {
        Some(last) if last <= end => Ok(()),
        _ => Err(Corrupt(format!("it is cut off: {what} ends behind the end of the file"))),
    }
}

fn dynamic_section<'d, H: FileHeader<Endian = Endianness>>(
    sections: &SectionTable<'d, H, &'d Data>,
    endian: Endianness,
    data: &'d Data,
    file: &mut File,
) -> Parsed<()> {
    let Some((entries, strings)) = sections.dynamic(endian, data)? else { return Ok(()) };
    let strings = sections.strings(endian, data, strings)?;
    for entry in entries {
        match entry.tag32(endian) {
            Some(DT_NEEDED) => file.needed.push(text(entry.string(endian, strings)?)),
            Some(DT_SONAME) => file.soname = Some(text(entry.string(endian, strings)?)),
            Some(DT_RPATH | DT_RUNPATH) => {
                file.search.extend(text(entry.string(endian, strings)?).split(':').map(String::from));
            }
            Some(elf::DT_NULL) => break,
            _ => {}
        }
    }
    Ok(())
}

fn versions<'d, H: FileHeader<Endian = Endianness>>(
    sections: &SectionTable<'d, H, &'d Data>,
    endian: Endianness,
    data: &'d Data,
    file: &mut File,
) -> Parsed<()> {
    if let Some((needs, strings)) = sections.gnu_verneed(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        for need in needs {
            let (library, versions) = need?;
            for version in versions {
                let version = version?;
                if version.vna_flags.get(endian) & elf::VER_FLG_WEAK == 0 {
                    let library = text(library.file(endian, strings)?);
                    let version = text(version.name(endian, strings)?);
                    file.versions.push(Needed { library, version });
                }
            }
        }
    }
    if let Some((defined, strings)) = sections.gnu_verdef(endian, data)? {
        let strings = sections.strings(endian, data, strings)?;
        for version in defined {
            // The first name is the version's own, those behind it are its parents'.
            if let Some(name) = version?.1.next()? {
                file.defined.push(text(name.name(endian, strings)?));
            }
        }
    }
    Ok(())
}

fn code_of<H: FileHeader<Endian = Endianness>>(data: &Data) -> Parsed<Vec<Code>> {
    let header = H::parse(data)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, data)?;
    let mut code = Vec::new();
    for section in sections.iter() {
        if is_code::<H>(section, endian) {
            code.push(Code {
                section: text(sections.section_name(endian, section)?),
                address: section.sh_addr(endian).into(),
                bytes: section.data(endian, data)?.to_vec(),
            });
        }
    }
    Ok(code)
}

fn is_code<H: FileHeader<Endian = Endianness>>(section: &H::SectionHeader, endian: Endianness) -> bool {
    let flags: u64 = section.sh_flags(endian).into();
    flags & u64::from(SHF_EXECINSTR) != 0 && section.sh_type(endian) != SHT_NOBITS
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
