//! Logins by caching_sha2_password, packet by packet, as MySQL 9.7 sends them.

use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::{Authentication, Channel};
use crate::client::script::{self, NONCE, packet};
use crate::client::{ClientError, Event, ProtocolError, Session};

const CACHING: &str = "caching_sha2_password";
const FAST: &[u8] = b"\x01\x03";
const FULL: &[u8] = b"\x01\x04";
const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// A session that is fed payloads of a server's, which it numbers.
struct Player {
    session: Session,
    sequence: u8,
}

impl Player {
    fn new(password: &str, channel: Channel) -> Self {
        Player { session: Session::new("me", password, channel), sequence: 0 }
    }

    /// What the client sends after this payload; nothing where it waits. `Err`: the conversation is over.
    fn hears(&mut self, payload: &[u8]) -> Result<Vec<u8>, ClientError> {
        let bytes = packet(self.sequence, payload);
        self.session.space()[..bytes.len()].copy_from_slice(&bytes);
        self.session.received(bytes.len());
        let logged_in = matches!(self.session.next_event()?, Some(Event::LoggedIn));
        assert_eq!(logged_in, payload == OK);
        let out = self.session.outgoing().to_vec();
        self.session.sent(out.len());
        self.sequence += 1;
        let Some((head, payload)) = out.split_first_chunk::<4>() else { return Ok(out) };
        assert_eq!(*head, [payload.len() as u8, 0, 0, self.sequence]);
        self.sequence += 1;
        Ok(payload.to_vec())
    }

    fn greeted_by(&mut self, plugin: &str) -> Vec<u8> {
        self.hears(&script::greeting("9.7.2", plugin)).unwrap()
    }
}

/// What a server with SHA256(SHA256("secret")) in its cache would accept.
fn proof() -> Vec<u8> {
    let once = Sha256::digest(b"secret");
    let mask = Sha256::new().chain_update(Sha256::digest(once)).chain_update(NONCE).finalize();
    once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
}

fn switch_to(plugin: &str) -> Vec<u8> {
    [b"\xfe", plugin.as_bytes(), b"\0", NONCE, b"\0"].concat()
}

#[test]
fn a_cached_password_is_proved_at_once() {
    let mut player = Player::new("secret", Channel::Open);
    let answer = player.greeted_by(CACHING);
    let end = [b"me\0\x20" as &[u8], &proof(), CACHING.as_bytes(), b"\0"].concat();
    assert!(answer.ends_with(&end), "{answer:?}");
    assert!(player.hears(FAST).unwrap().is_empty());
    assert!(player.hears(OK).unwrap().is_empty());
    assert_eq!(player.session.authentication(), Some(Authentication::Fast));
    assert_eq!(player.session.plugin(), CACHING);
}

#[test]
fn over_a_socket_the_password_itself_is_sent_when_it_is_asked_for() {
    let mut player = Player::new("secret", Channel::Local);
    player.greeted_by(CACHING);
    assert_eq!(player.hears(FULL).unwrap(), b"secret\0");
    player.hears(OK).unwrap();
    assert_eq!(player.session.authentication(), Some(Authentication::Full));
}

#[test]
fn over_tcp_the_password_is_sent_for_the_servers_key_only() {
    let mut player = Player::new("secret", Channel::Open);
    player.greeted_by(CACHING);
    assert_eq!(player.hears(FULL).unwrap(), [2]);
    let sent = player.hears(&[b"\x01", script::public_key().as_bytes()].concat()).unwrap();
    let plain = script::key().oaep_decrypt::<Sha1>(&sent).unwrap();
    let masked: Vec<u8> = b"secret\0".iter().zip(NONCE).map(|(a, b)| a ^ b).collect();
    assert_eq!(plain, masked);
    player.hears(OK).unwrap();
    assert_eq!(player.session.authentication(), Some(Authentication::Full));
}

#[test]
fn a_wrong_password_ends_with_the_servers_words() {
    for channel in [Channel::Local, Channel::Open] {
        let mut player = Player::new("wrong", channel);
        player.greeted_by(CACHING);
        player.hears(FULL).unwrap();
        if channel == Channel::Open {
            player.hears(&[b"\x01", script::public_key().as_bytes()].concat()).unwrap();
        }
        let denied = b"\xff\x15\x04#28000Access denied for user 'me'@'localhost' (using password: YES)";
        let Err(ClientError::Refused(error)) = player.hears(denied) else { panic!() };
        assert_eq!(error.code, 1045);
    }
}

#[test]
fn an_empty_password_is_no_bytes_at_all() {
    let mut player = Player::new("", Channel::Open);
    let answer = player.greeted_by(CACHING);
    assert!(answer.ends_with(b"me\0\0caching_sha2_password\0"), "{answer:?}");
    player.hears(OK).unwrap();
    assert_eq!(player.session.authentication(), None);
    // A server that asks for the password nevertheless.
    let mut player = Player::new("", Channel::Local);
    player.greeted_by(CACHING);
    assert_eq!(player.hears(FULL), Err(ClientError::Plugin(CACHING.into())));
}

#[test]
fn a_change_of_plugin_goes_both_ways() {
    let mut player = Player::new("secret", Channel::Local);
    player.greeted_by("mysql_native_password");
    assert_eq!(player.hears(&switch_to(CACHING)).unwrap(), proof());
    assert_eq!(player.hears(FULL).unwrap(), b"secret\0");
    player.hears(OK).unwrap();
    assert_eq!(player.session.authentication(), Some(Authentication::Full));

    let mut player = Player::new("secret", Channel::Open);
    player.greeted_by(CACHING);
    let native = crate::client::auth::respond("mysql_native_password", "secret", NONCE).unwrap();
    assert_eq!(player.hears(&switch_to("mysql_native_password")).unwrap(), native);
    player.hears(OK).unwrap();
    assert_eq!(player.session.authentication(), None);

    // To the same plugin, with other random bytes: what was agreed on before holds no more.
    let mut player = Player::new("secret", Channel::Local);
    player.greeted_by(CACHING);
    player.hears(FAST).unwrap();
    assert_eq!(player.hears(&switch_to(CACHING)).unwrap(), proof());
    player.hears(FULL).unwrap();
}

#[test]
fn bytes_that_the_plugin_does_not_send_are_refused() {
    let unexpected =
        |result| assert!(matches!(result, Err(ClientError::Protocol(ProtocolError::Unexpected(_)))));
    for payload in [b"\x01" as &[u8], b"\x01\x05", b"\x01\x03\x03", b"\x01\x04\x00"] {
        let mut player = Player::new("secret", Channel::Open);
        player.greeted_by(CACHING);
        unexpected(player.hears(payload));
    }
    // Asked twice.
    for (channel, first) in [(Channel::Local, FULL), (Channel::Open, FAST)] {
        let mut player = Player::new("secret", channel);
        player.greeted_by(CACHING);
        player.hears(first).unwrap();
        unexpected(player.hears(FULL));
    }
    // No key where one was asked for.
    let mut player = Player::new("secret", Channel::Open);
    player.greeted_by(CACHING);
    player.hears(FULL).unwrap();
    let Err(ClientError::Authentication(why)) = player.hears(b"\x01-----BEGIN") else { panic!() };
    assert!(why.contains("public key cannot be read"), "{why}");
    // Of a plugin that sends none.
    let mut player = Player::new("secret", Channel::Open);
    player.greeted_by("mysql_native_password");
    assert_eq!(player.hears(FULL), Err(ClientError::Plugin("mysql_native_password".into())));
}
