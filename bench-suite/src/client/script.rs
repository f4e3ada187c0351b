//! What a server would send, for tests.

use super::handshake::capability;
use super::packet::put_packets;
use super::wire::put_lenenc_bytes;

pub const NONCE: &[u8; 20] = b"ABCDEFGHabcdefghijkl";
/// Zero byte and name at the end of [`greeting`], which some servers cut short.
pub const TAIL_OF_GREETING: usize = 22;

/// The payload of a greeting.
pub fn greeting(version: &str, plugin: &str) -> Vec<u8> {
    greeting_with(version, plugin, u32::MAX)
}

/// The payload of a greeting of a server with these capabilities.
pub fn greeting_with(version: &str, plugin: &str, capabilities: u32) -> Vec<u8> {
    let bytes = capabilities.to_le_bytes();
    let mut out = vec![10];
    out.extend_from_slice(version.as_bytes());
    out.push(0);
    out.extend_from_slice(&[9, 0, 0, 0]);
    out.extend_from_slice(&NONCE[..8]);
    out.push(0);
    out.extend_from_slice(&bytes[..2]);
    out.push(45);
    out.extend_from_slice(&[2, 0]);
    out.extend_from_slice(&bytes[2..]);
    out.push(21);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(&NONCE[8..]);
    out.push(0);
    out.extend_from_slice(plugin.as_bytes());
    out.push(0);
    out
}

/// A greeting's capabilities with and without the end-of-columns packet.
pub const STYLES: [u32; 2] = [u32::MAX, !capability::DEPRECATE_EOF];

pub fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_packets(&mut out, sequence, payload);
    out
}

pub fn ok(sequence: u8) -> Vec<u8> {
    packet(sequence, &[0, 0, 0, 2, 0, 0, 0])
}

/// A column's definition.
pub fn column(name: &str, kind: u8) -> Vec<u8> {
    let mut out = Vec::new();
    for text in ["def", "", "", "", name, ""] {
        put_lenenc_bytes(&mut out, text.as_bytes());
    }
    out.extend_from_slice(&[0x0c, 45, 0, 255, 0, 0, 0, kind, 0, 0, 0, 0, 0]);
    out
}

/// A reply of one column of strings.
pub fn rows(style: u32, values: &[&[u8]]) -> Vec<u8> {
    let mut payloads: Vec<Vec<u8>> = vec![vec![1], column("c", 0xfd)];
    let new_style = style & capability::DEPRECATE_EOF != 0;
    let end = if new_style { vec![0xfe, 0, 0, 2, 0, 0, 0] } else { vec![0xfe, 0, 0, 2, 0] };
    if !new_style {
        payloads.push(end.clone());
    }
    payloads.extend(values.iter().map(|value| value.to_vec()));
    payloads.push(end);
    let numbered = (1..).zip(&payloads);
    numbered.flat_map(|(sequence, payload)| packet(sequence, payload)).collect()
}
