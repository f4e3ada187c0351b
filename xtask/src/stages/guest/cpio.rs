//! The archive that a kernel unpacks as its first file system: cpio's "newc" format, which needs no root to be written.

/// Builds an archive in memory. Everything in it belongs to root.
#[derive(Default)]
pub struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

const FOLDER: u32 = 0o040_000;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_000;

impl Archive {
    /// Adds a folder. The folders above it must have been added.
    pub fn folder(&mut self, path: &str, mode: u32) {
        self.entry(path, FOLDER | mode, &[]);
    }

    /// Adds a file.
    pub fn file(&mut self, path: &str, mode: u32, data: &[u8]) {
        self.entry(path, FILE | mode, data);
    }

    /// Adds a symbolic link.
    pub fn link(&mut self, path: &str, to: &str) {
        self.entry(path, LINK | 0o777, to.as_bytes());
    }

    /// The whole archive. Kernels read several, one behind the other.
    pub fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, path: &str, mode: u32, data: &[u8]) {
        self.entries += 1;
        let links = if mode & FOLDER == FOLDER { 2 } else { 1 };
        // Number, mode, user, group, links, time, size, device twice major and minor, length of the name, checksum.
        // The time is none: the same parts make the same archive.
        let name_length = path.len() as u32 + 1;
        let fields = [self.entries, mode, 0, 0, links, 0, data.len() as u32, 0, 0, 0, 0, name_length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    /// Every header and every file begins at a multiple of four.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Name, mode and data of each entry.
    fn read(mut bytes: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            assert_eq!(&bytes[..6], b"070701");
            let field = |n: usize| {
                let text = std::str::from_utf8(&bytes[6 + 8 * n..14 + 8 * n]).unwrap();
                u32::from_str_radix(text, 16).unwrap() as usize
            };
            let (mode, size, length) = (field(1), field(6), field(11));
            let name = std::str::from_utf8(&bytes[110..110 + length - 1]).unwrap().to_string();
            assert_eq!(bytes[110 + length - 1], 0);
            let data = (110 + length).next_multiple_of(4);
            found.push((name, mode as u32, bytes[data..data + size].to_vec()));
            bytes = &bytes[(data + size).next_multiple_of(4)..];
        }
        found
    }

    #[test]
    fn what_is_put_in_comes_out() {
        let mut archive = Archive::default();
        archive.folder("bin", 0o755);
        archive.file("bin/x", 0o755, b"12345");
        archive.file("empty", 0o600, b"");
        archive.link("bin/y", "x");
        let found = read(&archive.finish());
        let expected: [(&str, u32, &[u8]); 5] = [
            ("bin", 0o040_755, b""),
            ("bin/x", 0o100_755, b"12345"),
            ("empty", 0o100_600, b""),
            ("bin/y", 0o120_777, b"x"),
            ("TRAILER!!!", 0, b""),
        ];
        let found: Vec<(&str, u32, &[u8])> =
            found.iter().map(|(name, mode, data)| (name.as_str(), *mode, data.as_slice())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn the_bytes_are_those_of_the_format() {
        let mut archive = Archive::default();
        archive.file("a", 0o644, b"hi");
        let bytes = archive.finish();
        let header = "070701000000010000\
                      81a40000000000000000000000010000000000000002\
                      00000000000000000000000000000000000000020000\
                      0000a\0";
        assert_eq!(&bytes[..112], header.as_bytes());
        assert_eq!(&bytes[112..116], b"hi\0\0");
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn the_same_parts_make_the_same_archive_and_two_can_stand_behind_each_other() {
        let one = |name: &str| {
            let mut archive = Archive::default();
            archive.file(name, 0o644, b"x");
            archive.finish()
        };
        assert_eq!(one("a"), one("a"));
        let both = [one("a"), one("b")].concat();
        let names: Vec<String> = read(&both).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, ["a", "TRAILER!!!", "b", "TRAILER!!!"]);
    }
}
