//! Authentication plugins: what to answer to a server's random bytes.

use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signature, VerifyingKey};
use rsa::PublicKey;
use rsa::pkcs8::DecodePublicKey;
use sha1::{Digest, Sha1};
use sha2::{Sha256, Sha512};

/// MySQL's default since 8.0, which may ask for more than one answer: see [`super::login`].
pub const CACHING_SHA2: &str = "caching_sha2_password";

/// The plugins that [`respond`] knows, by the names servers give them.
pub const SUPPORTED: [&str; 5] =
    [CACHING_SHA2, "mysql_native_password", "client_ed25519", "auth_socket", "unix_socket"];

/// What proves that we know `password`, to a server that sent `nonce`; `None`: the plugin is not supported.
pub fn respond(plugin: &str, password: &str, nonce: &[u8]) -> Option<Vec<u8>> {
    match plugin {
        CACHING_SHA2 => Some(caching_sha2(password, nonce)),
        "mysql_native_password" => Some(native(password, nonce)),
        "client_ed25519" => Some(ed25519(password, nonce).to_bytes().to_vec()),
        // The server asks the kernel who is at the other end of the socket.
        "auth_socket" | "unix_socket" => Some(Vec::new()),
        _ => None,
    }
}

/// SHA1(password) XOR SHA1(nonce + SHA1(SHA1(password))); nothing for no password.
fn native(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password.as_bytes());
    let twice = Sha1::digest(once);
    let mask = Sha1::new().chain_update(nonce).chain_update(twice).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// SHA256(password) XOR SHA256(SHA256(SHA256(password)) + nonce); nothing for no password.
fn caching_sha2(password: &str, nonce: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password.as_bytes());
    let twice = Sha256::digest(once);
    let mask = Sha256::new().chain_update(twice).chain_update(nonce).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

/// The password and its ending zero byte, masked with the nonce.
fn masked(password: &str, nonce: &[u8]) -> Vec<u8> {
    let zero_terminated = password.bytes().chain([0]);
    zero_terminated.zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect()
}

/// The password for a server whose public key came as `pem`: masked with the nonce, so that it cannot be sent again,
/// then encrypted by RSA with OAEP and SHA-1, which is what MySQL decrypts. `Err` says why it cannot be.
pub fn encrypted(password: &str, nonce: &[u8], pem: &[u8]) -> Result<Vec<u8>, String> {
    if nonce.is_empty() {
        return Err("the server sent no random bytes".into());
    }
    let text = std::str::from_utf8(pem).map_err(|_| "the server's public key is no text")?;
    let key = PublicKey::from_public_key_pem(text.trim_end_matches(['\0', '\n', '\r']))
        .map_err(|error| format!("the server's public key cannot be read: {error}"))?;
    key.oaep_encrypt::<Sha1>(&masked(password, nonce))
        .map_err(|error| format!("the password cannot be encrypted with the server's public key: {error}"))
}

/// MariaDB's variant of Ed25519: the secret is a password of any length, not 32 random bytes.
fn ed25519(password: &str, nonce: &[u8]) -> Signature {
    let hash: [u8; 64] = Sha512::digest(password.as_bytes()).into();
    let secret = ExpandedSecretKey::from_bytes(&hash);
    raw_sign::<Sha512>(&secret, nonce, &VerifyingKey::from(&secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::script;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD_NO_PAD;

    #[test]
    fn native_password_proves_the_password() {
        let nonce = b"abcdefghij0123456789";
        let answer = native("secret", nonce);
        // What a server does: it stores SHA1(SHA1(password)) only.
        let stored = Sha1::digest(Sha1::digest(b"secret"));
        let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
        let once: Vec<u8> = answer.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha1::digest(once), stored);
        assert!(native("", nonce).is_empty());
    }

    #[test]
    fn ed25519_key_is_the_one_mariadb_stores() {
        // From MariaDB's own documentation of ed25519_password("secret").
        let hash: [u8; 64] = Sha512::digest(b"secret").into();
        let key = VerifyingKey::from(&ExpandedSecretKey::from_bytes(&hash));
        let stored = STANDARD_NO_PAD.encode(key.to_bytes());
        assert_eq!(stored, "ZIgUREUg5PVgQ6LskhXmO+eZLS0nC8be6HPjYWR4YJY");
        let signature = ed25519("secret", &[7; 32]);
        key.verify_strict(&[7; 32], &signature).unwrap();
    }

    #[test]
    fn caching_sha2_proves_the_password() {
        let nonce = b"ABCDEFGHabcdefghijkl";
        let answer = caching_sha2("secret", nonce);
        // What a server does: its cache holds SHA256(SHA256(password)) only.
        let stored = Sha256::digest(Sha256::digest(b"secret"));
        let mask = Sha256::new().chain_update(stored).chain_update(nonce).finalize();
        let once: Vec<u8> = answer.iter().zip(mask).map(|(a, b)| a ^ b).collect();
        assert_eq!(Sha256::digest(once), stored);
        assert!(caching_sha2("", nonce).is_empty());
    }

    #[test]
    fn a_password_is_encrypted_for_the_servers_key_alone() {
        let (key, pem) = (script::key(), script::public_key());
        let nonce = b"ABCDEFGHabcdefghijkl";
        // Longer than the nonce, which then begins again.
        let password = "a password of more than twenty bytes";
        let sent = encrypted(password, nonce, pem.as_bytes()).unwrap();
        let plain = key.oaep_decrypt::<Sha1>(&sent).unwrap();
        let unmasked: Vec<u8> = plain.iter().zip(nonce.iter().cycle()).map(|(a, b)| a ^ b).collect();
        assert_eq!(unmasked, [password.as_bytes(), b"\0"].concat());
        let too_long = encrypted(&"x".repeat(500), nonce, pem.as_bytes()).unwrap_err();
        assert!(too_long.contains("cannot be encrypted"), "{too_long}");
        for wrong in [b"no key" as &[u8], b"\xff", &pem.as_bytes()[..100]] {
            assert!(encrypted(password, nonce, wrong).unwrap_err().contains("public key"));
        }
        assert!(encrypted(password, b"", pem.as_bytes()).is_err());
    }

    #[test]
    fn unknown_plugins_are_told_apart() {
        assert_eq!(respond("sha256_password", "x", b"n"), None);
        assert!(SUPPORTED.iter().all(|plugin| respond(plugin, "x", b"n").is_some()));
    }
}
