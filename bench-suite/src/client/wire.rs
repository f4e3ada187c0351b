//! Integers and strings as the MySQL protocol writes them, whatever the byte order of this machine.
//!
//! Everything on the wire is little endian. No value is ever read by copying memory over an integer: each goes through
//! `from_le_bytes`, so a big-endian client reads what a little-endian one does.

use super::ProtocolError;

/// Reads a packet's payload from front to back; every read is checked against its end.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `payload` from its first byte.
    pub fn new(payload: &'a [u8]) -> Self {
        Reader { rest: payload }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Whether everything has been read.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], ProtocolError> {
        if count > self.rest.len() {
            return Err(ProtocolError::Short);
        }
        let (head, rest) = self.rest.split_at(count);
        self.rest = rest;
        Ok(head)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], ProtocolError> {
        let (head, rest) = self.rest.split_first_chunk::<N>().ok_or(ProtocolError::Short)?;
        self.rest = rest;
        Ok(*head)
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, ProtocolError> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, ProtocolError> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Three bytes.
    pub fn u24(&mut self) -> Result<u32, ProtocolError> {
        let [a, b, c] = self.array()?;
        Ok(u32::from_le_bytes([a, b, c, 0]))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, ProtocolError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, ProtocolError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Four bytes of IEEE 754.
    pub fn f32(&mut self) -> Result<f32, ProtocolError> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    /// Eight bytes of IEEE 754.
    pub fn f64(&mut self) -> Result<f64, ProtocolError> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    /// A length-encoded integer: 1, 3, 4 or 9 bytes.
    #[inline]
    pub fn lenenc(&mut self) -> Result<u64, ProtocolError> {
        match self.u8()? {
            small @ 0..=0xfa => Ok(u64::from(small)),
            0xfc => Ok(u64::from(self.u16()?)),
            0xfd => Ok(u64::from(self.u24()?)),
            0xfe => self.u64(),
            // NULL or an error's first byte: never a length.
            0xfb | 0xff => Err(ProtocolError::Malformed("a length-encoded integer")),
        }
    }

    /// A string behind its length-encoded length.
    #[inline]
    pub fn lenenc_bytes(&mut self) -> Result<&'a [u8], ProtocolError> {
        let length = self.lenenc()?;
        self.bytes(usize::try_from(length).map_err(|_| ProtocolError::Short)?)
    }

    /// A string up to a zero byte, which is read and left out.
    pub fn until_zero(&mut self) -> Result<&'a [u8], ProtocolError> {
        let end = self.rest.iter().position(|&b| b == 0).ok_or(ProtocolError::Short)?;
        let head = self.bytes(end)?;
        self.u8()?;
        Ok(head)
    }
}

/// Appends a length-encoded integer.
pub fn put_lenenc(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=0xfa => out.push(bytes[0]),
        0xfb..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&bytes[..2]);
        }
        0x1_0000..=0xff_ffff => {
            out.push(0xfd);
            out.extend_from_slice(&bytes[..3]);
        }
        _ => {
            out.push(0xfe);
            out.extend_from_slice(&bytes);
        }
    }
}

/// Appends a string behind its length-encoded length.
pub fn put_lenenc_bytes(out: &mut Vec<u8>, value: &[u8]) {
    put_lenenc(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a string and a zero byte.
pub fn put_until_zero(out: &mut Vec<u8>, value: &[u8]) {
    out.extend_from_slice(value);
    out.push(0);
}

/// Text for people from bytes that ought to be UTF-8.
pub fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_little_endian_on_every_machine() {
        let bytes: Vec<u8> = (1..=18).collect();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u8().unwrap(), 1);
        assert_eq!(reader.u16().unwrap(), 0x0302);
        assert_eq!(reader.u24().unwrap(), 0x06_0504);
        assert_eq!(reader.u32().unwrap(), 0x0a09_0807);
        assert_eq!(reader.u64().unwrap(), 0x1211_100f_0e0d_0c0b);
        assert!(reader.is_empty());
        assert_eq!(reader.u8(), Err(ProtocolError::Short));
    }

    #[test]
    fn floats_are_little_endian_on_every_machine() {
        assert_eq!(Reader::new(&[0, 0, 0xc0, 0x3f]).f32().unwrap(), 1.5);
        assert_eq!(Reader::new(&[0, 0, 0, 0, 0, 0, 0x02, 0xc0]).f64().unwrap(), -2.25);
    }

    #[test]
    fn lenenc_is_written_as_it_is_read() {
        let edges = [0, 1, 250, 251, 252, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX];
        for value in edges {
            let mut out = Vec::new();
            put_lenenc(&mut out, value);
            let mut reader = Reader::new(&out);
            assert_eq!(reader.lenenc().unwrap(), value);
            assert!(reader.is_empty());
            for cut in 0..out.len() {
                assert_eq!(Reader::new(&out[..cut]).lenenc(), Err(ProtocolError::Short));
            }
        }
        assert_eq!(put(|o| put_lenenc(o, 251)), [0xfc, 251, 0]);
        assert_eq!(put(|o| put_lenenc(o, 0x01_0203)), [0xfd, 3, 2, 1]);
    }

    #[test]
    fn strings_never_read_beyond_the_payload() {
        assert_eq!(Reader::new(b"abc\0d").until_zero().unwrap(), b"abc");
        assert_eq!(Reader::new(b"abc").until_zero(), Err(ProtocolError::Short));
        let huge = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, b'x'];
        assert_eq!(Reader::new(&huge).lenenc_bytes(), Err(ProtocolError::Short));
        assert_eq!(put(|o| put_lenenc_bytes(o, b"hi")), b"\x02hi");
    }

    fn put(write: impl Fn(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }
}
