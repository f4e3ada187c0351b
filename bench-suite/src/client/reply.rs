//! Replies to commands: OK, an error, or columns and rows.

use std::ops::Range;

use super::packet::Framer;
use super::value::{Column, Row};
use super::wire::{Reader, lossy};
use super::{ClientError, ProtocolError};

const OK: u8 = 0x00;
const EOF: u8 = 0xfe;
const ERROR: u8 = 0xff;
const LOCAL_FILE: u8 = 0xfb;
/// Status flag of a reply that another one follows.
const MORE_RESULTS: u16 = 0x0008;
/// More columns than this no server has.
const MAX_COLUMNS: u64 = 4096;

/// What kind of reply a command has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// OK or rows as text.
    Text,
    /// OK or rows in binary: of an executed statement.
    Binary,
    /// A statement's number.
    Prepared,
}

/// A whole reply.
#[derive(Debug)]
pub enum Reply<'a> {
    /// Done, no rows.
    Ok(OkReply),
    /// The server says no; the connection remains usable.
    Error(ServerError),
    /// Rows.
    Rows(Rows<'a>),
    /// A statement was prepared.
    Prepared(Prepared),
}

/// An OK packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OkReply {
    /// Rows changed.
    pub affected_rows: u64,
    /// Warnings raised.
    pub warnings: u16,
}

/// A prepared statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// Its number on this connection.
    pub statement: u32,
    /// Parameters to be given.
    pub parameters: u16,
}

/// An error packet.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (error {code})")]
pub struct ServerError {
    /// The error's number.
    pub code: u16,
    /// The message.
    pub message: String,
}

impl ServerError {
    /// Reads an error packet.
    pub fn parse(payload: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(payload);
        reader.u8()?;
        let code = reader.u16()?;
        let rest = reader.rest();
        // `#` and five characters of SQL state, which is left out before login.
        let message = match rest {
            [b'#', rest @ ..] => rest.get(5..).unwrap_or_default(),
            _ => rest,
        };
        Ok(ServerError { code, message: lossy(message) })
    }
}

/// Rows of a reply, still in the bytes they came in.
#[derive(Debug)]
pub struct Rows<'a> {
    framer: &'a Framer,
    columns: &'a [Range<usize>],
    rows: &'a [Range<usize>],
    binary: bool,
}

impl<'a> Rows<'a> {
    /// How many rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// How many columns.
    #[inline]
    pub fn width(&self) -> usize {
        self.columns.len()
    }

    /// A row's bytes, undecoded: for the timed part, which knows what must be in them.
    #[inline]
    pub fn raw(&self, index: usize) -> Option<&'a [u8]> {
        self.rows.get(index).map(|range| self.framer.payload(range))
    }

    /// The columns.
    pub fn columns(&self) -> Result<Vec<Column>, ProtocolError> {
        self.columns.iter().map(|range| Column::parse(self.framer.payload(range))).collect()
    }

    /// The rows, decoded.
    pub fn decode(&self) -> Result<Vec<Row<'a>>, ProtocolError> {
        let columns = self.columns()?;
        let parse = if self.binary { Row::parse_binary } else { Row::parse_text };
        self.rows.iter().map(|range| parse(self.framer.payload(range), &columns)).collect()
    }
}

/// Recognises the end of a reply, packet by packet.
#[derive(Debug)]
pub struct Scanner {
    state: State,
    binary: bool,
    columns: Vec<Range<usize>>,
    rows: Vec<Range<usize>>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    First(Expect),
    Columns {
        left: u64,
    },
    EndOfColumns,
    Rows,
    /// Definitions of parameters and columns that nobody needs, and the EOF packets behind them.
    Skip {
        left: u32,
        prepared: Prepared,
    },
}

/// What ended a reply.
#[derive(Debug)]
pub enum End {
    Ok(OkReply),
    Error(ServerError),
    Rows,
    Prepared(Prepared),
}

impl Default for Scanner {
    fn default() -> Self {
        Scanner { state: State::First(Expect::Text), binary: false, columns: Vec::new(), rows: Vec::new() }
    }
}

impl Scanner {
    /// A command was sent.
    #[inline]
    pub fn begin(&mut self, expect: Expect) {
        self.state = State::First(expect);
        self.binary = expect == Expect::Binary;
        self.columns.clear();
        self.rows.clear();
    }

    /// Takes one more packet; what ended the reply, if this one did.
    #[inline]
    pub fn take(
        &mut self,
        framer: &Framer,
        range: Range<usize>,
        eof_deprecated: bool,
    ) -> Result<Option<End>, ClientError> {
        let payload = framer.payload(&range);
        match self.state {
            State::First(expect) => return self.first(payload, expect, eof_deprecated),
            State::Columns { left } => {
                self.columns.push(range);
                self.state = match left {
                    2.. => State::Columns { left: left - 1 },
                    _ if eof_deprecated => State::Rows,
                    _ => State::EndOfColumns,
                };
            }
            State::EndOfColumns => {
                if payload.first() != Some(&EOF) {
                    return Err(ProtocolError::Malformed("no end of columns").into());
                }
                self.state = State::Rows;
            }
            State::Rows => return self.row(payload, range, eof_deprecated),
            State::Skip { left, prepared } => {
                if left == 1 {
                    return Ok(Some(End::Prepared(prepared)));
                }
                self.state = State::Skip { left: left - 1, prepared };
            }
        }
        Ok(None)
    }

    fn first(
        &mut self,
        payload: &[u8],
        expect: Expect,
        eof_deprecated: bool,
    ) -> Result<Option<End>, ClientError> {
        match *payload.first().ok_or(ProtocolError::Short)? {
            ERROR => Ok(Some(End::Error(ServerError::parse(payload)?))),
            OK if expect == Expect::Prepared => self.prepared(payload, eof_deprecated),
            OK => Ok(Some(End::Ok(parse_ok(payload)?))),
            LOCAL_FILE => Err(ProtocolError::Unexpected("a request for a local file").into()),
            _ if expect == Expect::Prepared => Err(ProtocolError::Malformed("the reply to a prepare").into()),
            _ => {
                let mut reader = Reader::new(payload);
                let left = reader.lenenc()?;
                if !(1..=MAX_COLUMNS).contains(&left) || !reader.is_empty() {
                    return Err(ProtocolError::Malformed("the number of columns").into());
                }
                self.state = State::Columns { left };
                Ok(None)
            }
        }
    }

    #[inline]
    fn row(
        &mut self,
        payload: &[u8],
        range: Range<usize>,
        eof_deprecated: bool,
    ) -> Result<Option<End>, ClientError> {
        match payload.first() {
            None => Err(ProtocolError::Short.into()),
            Some(&ERROR) => Ok(Some(End::Error(ServerError::parse(payload)?))),
            // A row of text begins with 0xfe only if its first value is longer than a packet.
            Some(&EOF) if payload.len() < super::packet::MAX_PAYLOAD_BYTES => {
                let mut reader = Reader::new(&payload[1..]);
                let status = if eof_deprecated {
                    reader.lenenc()?;
                    reader.lenenc()?;
                    reader.u16()?
                } else {
                    reader.u16()?;
                    reader.u16()?
                };
                refuse_more(status)?;
                Ok(Some(End::Rows))
            }
            Some(_) => {
                self.rows.push(range);
                Ok(None)
            }
        }
    }

    fn prepared(&mut self, payload: &[u8], eof_deprecated: bool) -> Result<Option<End>, ClientError> {
        let mut reader = Reader::new(&payload[1..]);
        let statement = reader.u32()?;
        let columns = reader.u16()?;
        let parameters = reader.u16()?;
        let prepared = Prepared { statement, parameters };
        let eofs = if eof_deprecated { 0 } else { u32::from(columns > 0) + u32::from(parameters > 0) };
        let left = u32::from(columns) + u32::from(parameters) + eofs;
        if left == 0 {
            return Ok(Some(End::Prepared(prepared)));
        }
        self.state = State::Skip { left, prepared };
        Ok(None)
    }

    /// The rows taken, in `framer`'s bytes.
    #[inline]
    pub fn rows<'a>(&'a self, framer: &'a Framer) -> Rows<'a> {
        Rows { framer, columns: &self.columns, rows: &self.rows, binary: self.binary }
    }
}

/// Reads an OK packet.
pub fn parse_ok(payload: &[u8]) -> Result<OkReply, ProtocolError> {
    let mut reader = Reader::new(payload);
    reader.u8()?;
    let affected_rows = reader.lenenc()?;
    reader.lenenc()?; // the last number that AUTO_INCREMENT gave
    let status = reader.u16()?;
    let warnings = reader.u16()?;
    refuse_more(status)?;
    Ok(OkReply { affected_rows, warnings })
}

/// Only statements with a single result are ever sent.
fn refuse_more(status: u16) -> Result<(), ProtocolError> {
    match status & MORE_RESULTS {
        0 => Ok(()),
        _ => Err(ProtocolError::Unexpected("a second result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ok_and_error_are_little_endian_on_every_machine() {
        let ok = parse_ok(&[0, 0xfc, 0x01, 0x02, 5, 0x02, 0x00, 0x03, 0x01]).unwrap();
        assert_eq!(ok, OkReply { affected_rows: 0x0201, warnings: 0x0103 });
        let error = ServerError::parse(b"\xff\xb5\x04#HY000Lock wait timeout").unwrap();
        assert_eq!(error, ServerError { code: 1205, message: "Lock wait timeout".into() });
        assert_eq!(ServerError::parse(b"\xff\x10\x04full").unwrap().message, "full");
        assert_eq!(ServerError::parse(b"\xff\x10\x04#08").unwrap().message, "");
    }

    #[test]
    fn a_second_result_is_refused() {
        assert!(matches!(parse_ok(&[0, 0, 0, 8, 0, 0, 0]), Err(ProtocolError::Unexpected(_))));
    }
}
