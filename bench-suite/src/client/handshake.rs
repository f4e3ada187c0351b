//! Logging in: the server's greeting, our answer, and a change of plugin if the account asks for one.

use super::wire::{Reader, lossy, put_lenenc_bytes, put_until_zero};
use super::{ClientError, ProtocolError, ServerError};

/// Capability flags that are used.
pub mod capability {
    /// The classic protocol; a MariaDB server reads its absence as "more flags follow".
    pub const LONG_PASSWORD: u32 = 1;
    /// More flags in column definitions.
    pub const LONG_FLAG: u32 = 1 << 2;
    /// The protocol of version 4.1.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// Status flags in OK packets.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// Authentication by challenge.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Authentication plugins.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// Authentication answers longer than 255 bytes.
    pub const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
    /// No EOF packet between columns and rows: fewer packets.
    pub const DEPRECATE_EOF: u32 = 1 << 24;
}

const WANTED: u32 = capability::LONG_PASSWORD
    | capability::LONG_FLAG
    | capability::PROTOCOL_41
    | capability::TRANSACTIONS
    | capability::SECURE_CONNECTION
    | capability::PLUGIN_AUTH
    | capability::PLUGIN_AUTH_LENENC
    | capability::DEPRECATE_EOF;
const NEEDED: u32 = capability::PROTOCOL_41 | capability::SECURE_CONNECTION;
/// The largest packet we say we can take; the server's own limit decides.
const MAX_PACKET_BYTES: u32 = 1 << 30;
/// `utf8mb4_general_ci`: the same character set as the tables, so that no server converts replies.
const COLLATION: u8 = 45;

/// A server's first packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// Version as the server prints it.
    pub version: String,
    /// Capabilities that both sides have.
    pub capabilities: u32,
    /// Random bytes for the answer.
    pub nonce: Vec<u8>,
    /// Plugin that the nonce is for.
    pub plugin: String,
}

impl Greeting {
    /// Reads a greeting, or the error that came in its place.
    pub fn parse(payload: &[u8]) -> Result<Self, ClientError> {
        let mut reader = Reader::new(payload);
        match reader.u8()? {
            10 => Ok(Self::parse_version_10(&mut reader)?),
            0xff => Err(ClientError::Refused(ServerError::parse(payload)?)),
            other => Err(ProtocolError::NotMySql(other).into()),
        }
    }

    fn parse_version_10(reader: &mut Reader<'_>) -> Result<Self, ProtocolError> {
        let version = lossy(reader.until_zero()?);
        reader.u32()?; // the connection's number
        let mut nonce = reader.bytes(8)?.to_vec();
        reader.u8()?;
        let low = u32::from(reader.u16()?);
        reader.u8()?; // the server's default character set
        reader.u16()?; // its status
        let capabilities = low | u32::from(reader.u16()?) << 16;
        if capabilities & NEEDED != NEEDED {
            return Err(ProtocolError::Malformed("a server without the protocol of version 4.1"));
        }
        let nonce_bytes = usize::from(reader.u8()?);
        reader.bytes(10)?;
        let second = reader.bytes(nonce_bytes.saturating_sub(8).max(13))?;
        nonce.extend_from_slice(second.strip_suffix(&[0]).unwrap_or(second));
        let plugin = match capabilities & capability::PLUGIN_AUTH {
            0 => "mysql_native_password".into(),
            // Some servers leave out the last zero byte.
            _ => lossy(reader.rest().split(|&b| b == 0).next().unwrap_or_default()),
        };
        Ok(Greeting { version, capabilities: capabilities & WANTED, nonce, plugin })
    }

    /// The answer: who we are and `proof` for `plugin`. No database is chosen: statements name theirs.
    pub fn answer(&self, user: &str, plugin: &str, proof: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(128);
        out.extend_from_slice(&self.capabilities.to_le_bytes());
        out.extend_from_slice(&MAX_PACKET_BYTES.to_le_bytes());
        out.push(COLLATION);
        out.extend_from_slice(&[0; 23]);
        put_until_zero(&mut out, user.as_bytes());
        // The same bytes with and without PLUGIN_AUTH_LENENC, for proofs of up to 250 bytes.
        put_lenenc_bytes(&mut out, proof);
        if self.capabilities & capability::PLUGIN_AUTH != 0 {
            put_until_zero(&mut out, plugin.as_bytes());
        }
        out
    }
}

/// A server's request for another plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthSwitch {
    /// The plugin.
    pub plugin: String,
    /// Random bytes for it.
    pub nonce: Vec<u8>,
}

impl AuthSwitch {
    /// Reads a payload whose first byte is 0xfe.
    pub fn parse(payload: &[u8]) -> Result<Self, ProtocolError> {
        let mut reader = Reader::new(payload);
        reader.u8()?;
        if reader.is_empty() {
            // The form of before plugins had names.
            return Ok(AuthSwitch { plugin: "mysql_old_password".into(), nonce: Vec::new() });
        }
        let plugin = lossy(reader.until_zero()?);
        let rest = reader.rest();
        let nonce = rest.strip_suffix(&[0]).unwrap_or(rest).to_vec();
        Ok(AuthSwitch { plugin, nonce })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::script;

    #[test]
    fn greeting_is_read() {
        let payload = script::greeting("10.11.18-MariaDB", "mysql_native_password");
        let greeting = Greeting::parse(&payload).unwrap();
        assert_eq!(greeting.version, "10.11.18-MariaDB");
        assert_eq!(greeting.plugin, "mysql_native_password");
        assert_eq!(greeting.nonce, script::NONCE);
        assert_eq!(greeting.capabilities, WANTED);
        for cut in 0..payload.len() - script::TAIL_OF_GREETING {
            assert!(Greeting::parse(&payload[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn answer_is_little_endian_on_every_machine() {
        let payload = script::greeting("8", "mysql_native_password");
        let answer = Greeting::parse(&payload).unwrap().answer("me", "mysql_native_password", b"P");
        assert_eq!(answer[..4], WANTED.to_le_bytes());
        assert_eq!(answer[4..9], [0, 0, 0, 0x40, 45]);
        assert_eq!(answer[9..32], [0; 23]);
        assert_eq!(&answer[32..], b"me\0\x01Pmysql_native_password\0");
    }

    #[test]
    fn what_is_not_a_greeting_is_told_apart() {
        let refused = b"\xff\x10\x04#08004Too many connections";
        let Err(ClientError::Refused(error)) = Greeting::parse(refused) else { panic!() };
        assert_eq!(error.code, 1040);
        let http = Greeting::parse(b"HTTP/1.1 400 Bad Request");
        assert_eq!(http, Err(ProtocolError::NotMySql(b'H').into()));
    }

    #[test]
    fn plugin_switch_is_read() {
        let switch = AuthSwitch::parse(b"\xfeclient_ed25519\0nonce\0").unwrap();
        assert_eq!(switch.plugin, "client_ed25519");
        assert_eq!(switch.nonce, b"nonce");
        assert_eq!(AuthSwitch::parse(b"\xfe").unwrap().plugin, "mysql_old_password");
        assert!(AuthSwitch::parse(b"\xfenot ended").is_err());
    }
}
