//! What a server would send, for tests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rsa::pkcs1::DecodeRsaPrivateKey;
use rsa::pkcs8::EncodePublicKey;

use super::handshake::capability;
use super::packet::put_packets;
use super::wire::put_lenenc_bytes;

pub const NONCE: &[u8; 20] = b"ABCDEFGHabcdefghijkl";
/// Zero byte and name at the end of [`greeting`], which some servers cut short.
pub const TAIL_OF_GREETING: usize = 22;

/// A server's key pair, made for these tests: PKCS #1 in base64.
const KEY: &str = concat!(
    "MIICXQIBAAKBgQC6ZBI0/q77WE5MkUOT8/9EhB39rk0/clGnXNlQmETYilY9RfHzrez4yvGGTJ4qTzOv+9QxJtquXnXDILfD",
    "mc+CCYGIptakyrXijjNPUnCznxTvsvMG/l1SqckTh1RUixlqye+RDInKmVjh15c/XR3PhpntLCbLZg4zOp9wpOevAQIDAQAB",
    "AoGABajgPKe3HH6z8fM/QBDaoXP5jShrxA9ul0xkdOQKwyCAOeAT1rhjR7Kx3sgYzWQWR7O33740SbMolEI8Ej5rZJQZizcl",
    "QcjP1Qb+8/kJ/y33ak+07cERJxzjT6sOx77hSTSwVEKrZHf938HZA4htv/6jgg1A1i4MjR8/SEAJjJkCQQDzRvSQ/5+i/8wO",
    "oSYe+AV97FT+BVrd7JTTnI+S40oJmJgC/5+w3faEYUuJYZyqtw6tOZ5YLahbs8bWeLL6eolnAkEAxCOCwik7bwdpPO+wRwdy",
    "L79Wo4fbNe+PhRL4+QPZJoxj49Asqax0MXtZnyfSXditPs+fxnrh1UIWe8UJZT37VwJBAO365VfKl/Et5gIRpmb5HPY38FSm",
    "DGO4AUaYiuKYMV79xQZ55U9xcqvBOdFkiYt+k37lNH7x+xXp4YMAg6T/pdUCQQC9aG2FgrvaZJXEOtNIRHCIm4XXNgMC+uzl",
    "3YSBNK4nA7wS65213Mv4XN4XTCViazQiS+5HhbNAdimwLH7+PfTRAkAyJfe2LdX2pQF7ObKSEG8cPk/pgWKIZqykZ0k56NYc",
    "QHWEhqPyXisguHiduKoCJfjBRpgEFsqD1mhEsqZx3R5b",
);

/// The server's key pair.
pub fn key() -> rsa::PrivateKey {
    let der = STANDARD.decode(KEY).unwrap();
    rsa::PrivateKey::from_pkcs1_der(&der).unwrap()
}

/// The public half of [`key`] as a server sends it.
pub fn public_key() -> String {
    key().to_public_key().to_public_key_pem(Default::default()).unwrap()
}

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
