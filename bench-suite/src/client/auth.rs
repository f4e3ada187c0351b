//! Authentication plugins: what to answer to a server's random bytes.

use ed25519_dalek::hazmat::{ExpandedSecretKey, raw_sign};
use ed25519_dalek::{Signature, VerifyingKey};
use sha1::{Digest, Sha1};
use sha2::Sha512;

/// The plugins that [`respond`] knows, by the names servers give them.
pub const SUPPORTED: [&str; 4] = ["mysql_native_password", "client_ed25519", "auth_socket", "unix_socket"];

/// What proves that we know `password`, to a server that sent `nonce`; `None`: the plugin is not supported.
pub fn respond(plugin: &str, password: &str, nonce: &[u8]) -> Option<Vec<u8>> {
    match plugin {
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

/// MariaDB's variant of Ed25519: the secret is a password of any length, not 32 random bytes.
fn ed25519(password: &str, nonce: &[u8]) -> Signature {
    let hash: [u8; 64] = Sha512::digest(password.as_bytes()).into();
    let secret = ExpandedSecretKey::from_bytes(&hash);
    raw_sign::<Sha512>(&secret, nonce, &VerifyingKey::from(&secret))
}

#[cfg(test)]
mod tests {
    use super::*;
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
    fn unknown_plugins_are_told_apart() {
        assert_eq!(respond("sha256_password", "x", b"n"), None);
        assert!(SUPPORTED.iter().all(|plugin| respond(plugin, "x", b"n").is_some()));
    }
}
