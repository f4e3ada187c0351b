//! Packets: a 3-byte length and a sequence number before each payload of at most 16 MiB - 1.
//!
//! [`Framer`] takes bytes in any portions and gives out whole payloads as ranges of its one buffer; a payload that was
//! split over several packets is made contiguous in place.

use std::ops::Range;

use super::ProtocolError;

/// Bytes before each payload.
pub const HEADER_BYTES: usize = 4;
/// A payload of this length continues in the next packet.
pub const MAX_PAYLOAD_BYTES: usize = 0xff_ffff;
/// The largest reply that is accepted: a length gone wrong must not eat the machine's memory.
const MAX_REPLY_BYTES: usize = 64 << 20;
const FIRST_BUFFER_BYTES: usize = 4096;

/// Splits incoming bytes into payloads.
#[derive(Debug)]
pub struct Framer {
    /// Initialised throughout, so that a socket can read into its free end without `unsafe`.
    buffer: Vec<u8>,
    filled: usize,
    /// Where the next packet's header is, or will be.
    at: usize,
    /// Payload parts that arrived so far of a payload split over several packets.
    split: Option<Range<usize>>,
    sequence: u8,
}

impl Default for Framer {
    fn default() -> Self {
        Framer { buffer: vec![0; FIRST_BUFFER_BYTES], filled: 0, at: 0, split: None, sequence: 0 }
    }
}

impl Framer {
    /// Where to read bytes into; never empty. Tell [`Framer::received`] how many came.
    pub fn space(&mut self) -> &mut [u8] {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.buffer.len() * 2, 0);
        }
        &mut self.buffer[self.filled..]
    }

    /// `count` bytes were read into [`Framer::space`].
    pub fn received(&mut self, count: usize) {
        self.filled = (self.filled + count).min(self.buffer.len());
    }

    /// The next whole payload, as a range for [`Framer::payload`]; `None` until more bytes come.
    #[inline]
    pub fn next_payload(&mut self) -> Result<Option<Range<usize>>, ProtocolError> {
        loop {
            let Some((head, _)) = self.buffer[self.at..self.filled].split_first_chunk::<HEADER_BYTES>()
            else {
                return Ok(None);
            };
            let length = u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize;
            if head[3] != self.sequence {
                return Err(ProtocolError::Sequence { expected: self.sequence, found: head[3] });
            }
            let start = self.at + HEADER_BYTES;
            if start + length > MAX_REPLY_BYTES {
                return Err(ProtocolError::TooLong);
            }
            if start + length > self.filled {
                return Ok(None);
            }
            self.at = start + length;
            self.sequence = self.sequence.wrapping_add(1);
            if length < MAX_PAYLOAD_BYTES && self.split.is_none() {
                return Ok(Some(start..self.at));
            }
            if let Some(whole) = self.join(start, length) {
                return Ok(Some(whole));
            }
        }
    }

    /// Moves one more part behind those before it; the whole payload if it was the last.
    fn join(&mut self, start: usize, length: usize) -> Option<Range<usize>> {
        let so_far = self.split.take().unwrap_or(start..start);
        self.buffer.copy_within(start..start + length, so_far.end);
        let joined = so_far.start..so_far.end + length;
        if length < MAX_PAYLOAD_BYTES {
            return Some(joined);
        }
        self.split = Some(joined);
        None
    }

    /// A payload that [`Framer::next_payload`] gave, valid until [`Framer::begin`].
    #[inline]
    pub fn payload(&self, range: &Range<usize>) -> &[u8] {
        &self.buffer[range.clone()]
    }

    /// Forgets everything: the next packet must carry sequence number `sequence`.
    ///
    /// Bytes that nobody asked for mean that client and server are out of step.
    pub fn begin(&mut self, sequence: u8) -> Result<(), ProtocolError> {
        if self.filled != self.at || self.split.is_some() {
            return Err(ProtocolError::Unexpected("bytes after the end of a reply"));
        }
        self.filled = 0;
        self.at = 0;
        self.sequence = sequence;
        Ok(())
    }

    /// A packet of ours takes the next number.
    pub fn skip_sequence(&mut self) {
        self.sequence = self.sequence.wrapping_add(1);
    }

    /// Sequence number of the next packet, in either direction.
    pub fn sequence(&self) -> u8 {
        self.sequence
    }
}

/// Appends `payload` as one packet, or as many as its length needs.
pub fn put_packets(out: &mut Vec<u8>, mut sequence: u8, payload: &[u8]) {
    let mut rest = payload;
    loop {
        let (part, more) = rest.split_at(rest.len().min(MAX_PAYLOAD_BYTES));
        out.extend_from_slice(&(part.len() as u32).to_le_bytes()[..3]);
        out.push(sequence);
        out.extend_from_slice(part);
        sequence = sequence.wrapping_add(1);
        rest = more;
        // A last part of the full length is followed by an empty one.
        if part.len() < MAX_PAYLOAD_BYTES {
            return;
        }
    }
}

/// Begins a command's packet in `out`; [`end_command`] fills in its length.
#[inline]
pub fn begin_command(out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&[0; HEADER_BYTES]);
}

/// Ends the command that [`begin_command`] began.
#[inline]
pub fn end_command(out: &mut Vec<u8>) {
    let length = out.len() - HEADER_BYTES;
    if length < MAX_PAYLOAD_BYTES {
        out[..3].copy_from_slice(&(length as u32).to_le_bytes()[..3]);
    } else {
        let payload = out.split_off(HEADER_BYTES);
        out.clear();
        put_packets(out, 0, &payload);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(framer: &mut Framer, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = framer.space();
            let count = space.len().min(bytes.len());
            space[..count].copy_from_slice(&bytes[..count]);
            framer.received(count);
            bytes = &bytes[count..];
        }
    }

    #[test]
    fn header_is_little_endian_on_every_machine() {
        let mut out = Vec::new();
        put_packets(&mut out, 7, &[b'x'; 0x0102]);
        assert_eq!(out[..4], [2, 1, 0, 7]);
        let mut command = Vec::new();
        begin_command(&mut command);
        command.extend_from_slice(b"\x03DO 0");
        end_command(&mut command);
        assert_eq!(command, b"\x05\0\0\0\x03DO 0");
    }

    #[test]
    fn payloads_come_out_whole_however_the_bytes_arrive() {
        let mut stream = Vec::new();
        put_packets(&mut stream, 0, b"first");
        put_packets(&mut stream, 1, b"");
        put_packets(&mut stream, 2, &[9; 5000]);
        for portion in [1, 2, 3, 7, 4096, stream.len()] {
            let mut framer = Framer::default();
            let mut payloads = Vec::new();
            for part in stream.chunks(portion) {
                feed(&mut framer, part);
                while let Some(range) = framer.next_payload().unwrap() {
                    payloads.push(framer.payload(&range).to_vec());
                }
            }
            assert_eq!(payloads, [b"first".to_vec(), vec![], vec![9; 5000]]);
            framer.begin(0).unwrap();
        }
    }

    #[test]
    fn payloads_beyond_16_mib_are_split_and_joined() {
        for length in [MAX_PAYLOAD_BYTES - 1, MAX_PAYLOAD_BYTES, 2 * MAX_PAYLOAD_BYTES + 5] {
            let payload: Vec<u8> = (0..length).map(|i| (i % 251) as u8).collect();
            let mut out = Vec::new();
            begin_command(&mut out);
            out.extend_from_slice(&payload);
            end_command(&mut out);
            let parts = length / MAX_PAYLOAD_BYTES + 1;
            assert_eq!(out.len(), length + parts * HEADER_BYTES);
            let mut framer = Framer::default();
            feed(&mut framer, &out);
            let range = framer.next_payload().unwrap().unwrap();
            assert!(framer.payload(&range) == payload);
            assert_eq!(framer.sequence() as usize, parts);
            assert_eq!(framer.next_payload(), Ok(None));
        }
    }

    #[test]
    fn out_of_step_is_an_error() {
        let mut framer = Framer::default();
        feed(&mut framer, &[1, 0, 0, 5, b'x']);
        let wrong = ProtocolError::Sequence { expected: 0, found: 5 };
        assert_eq!(framer.next_payload(), Err(wrong));

        let mut framer = Framer::default();
        feed(&mut framer, &[0, 0, 0, 0, 1]);
        assert!(framer.next_payload().unwrap().is_some());
        assert!(matches!(framer.begin(0), Err(ProtocolError::Unexpected(_))));
    }

    #[test]
    fn an_endless_payload_is_refused() {
        let mut framer = Framer::default();
        let mut sequence = 0;
        loop {
            feed(&mut framer, &[0xff, 0xff, 0xff, sequence]);
            feed(&mut framer, &vec![0; MAX_PAYLOAD_BYTES]);
            sequence += 1;
            match framer.next_payload() {
                Ok(None) => assert!(sequence < 6),
                other => break assert_eq!(other, Err(ProtocolError::TooLong)),
            }
        }
    }
}
