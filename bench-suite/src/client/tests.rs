//! Whole conversations, and what happens to them when bytes are missing or wrong.

use super::script::{self, STYLES, packet};
use super::*;

const ROW: &[u8] = b"\x05hello";

/// A server's side of a conversation: what it sends, part by part; each part is sent after we sent
/// something.
fn conversation(style: u32) -> Vec<Vec<u8>> {
    let greeting = script::greeting_with("5.5.5-10.11.18-MariaDB", "mysql_native_password", style);
    let switch = [b"\xfemysql_native_password\0" as &[u8], script::NONCE, b"\0"].concat();
    let eof = packet(3, &[0xfe, 0, 0, 2, 0]);
    let mut prepared = packet(1, &[0, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0]);
    prepared.extend(packet(2, &script::column("?", 0xfd)));
    if style != u32::MAX {
        prepared.extend(eof);
    }
    vec![
        packet(0, &greeting),
        packet(2, &switch),
        script::ok(4),
        script::rows(style, &[ROW, ROW]),
        packet(1, b"\xff\x7a\x04#42S02no such table"),
        prepared,
        script::ok(1),
    ]
}

fn feed(session: &mut Session, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let space = session.space();
        let count = space.len().min(bytes.len());
        space[..count].copy_from_slice(&bytes[..count]);
        session.received(count);
        bytes = &bytes[count..];
    }
}

/// Plays a client that sends three queries and a prepare; what it saw.
fn play(parts: &[Vec<u8>], portion: usize) -> Result<Vec<String>, ClientError> {
    let mut session = Session::new("me", "secret", Channel::Open);
    let mut seen = Vec::new();
    let mut commands = 0;
    for part in parts {
        for bytes in part.chunks(portion) {
            feed(&mut session, bytes);
            let mut ended = false;
            while let Some(event) = session.next_event()? {
                seen.push(describe(event));
                ended = true;
            }
            session.sent(session.outgoing().len());
            if ended {
                commands += 1;
                match commands {
                    3 => session.prepare("SELECT ?")?,
                    _ => session.query("SELECT 1")?,
                }
            }
        }
    }
    Ok(seen)
}

fn describe(event: Event<'_>) -> String {
    match event {
        Event::LoggedIn => "in".into(),
        Event::Reply(Reply::Ok(_)) => "ok".into(),
        Event::Reply(Reply::Error(error)) => format!("error {}", error.code),
        Event::Reply(Reply::Prepared(p)) => format!("prepared {} {}", p.statement, p.parameters),
        Event::Reply(Reply::Rows(rows)) => match rows.decode() {
            Ok(decoded) => {
                let first = decoded.first().and_then(|row| row.0.first().map(ToString::to_string));
                format!("{} rows, {}", rows.len(), first.unwrap_or_default())
            }
            Err(error) => format!("{error}"),
        },
    }
}

const SEEN: [&str; 5] = ["in", "2 rows, hello", "error 1146", "prepared 9 1", "ok"];

#[test]
fn a_conversation_is_understood_in_any_portions() {
    for style in STYLES {
        for portion in [1, 2, 5, 100_000] {
            assert_eq!(play(&conversation(style), portion).unwrap(), SEEN, "{style:x}/{portion}");
        }
    }
}

#[test]
fn a_truncated_conversation_waits_for_more_and_says_nothing_wrong() {
    for style in STYLES {
        let parts = conversation(style);
        for last in 0..parts.len() {
            for cut in 0..parts[last].len() {
                let mut truncated = parts[..=last].to_vec();
                truncated[last].truncate(cut);
                let seen = play(&truncated, 100_000).unwrap();
                assert!(seen.len() < SEEN.len() && SEEN.starts_with(&as_str(&seen)), "{seen:?}");
            }
        }
    }
}

fn as_str(seen: &[String]) -> Vec<&str> {
    seen.iter().map(String::as_str).collect()
}

/// Neither a panic nor a loop without end: an error, a wait for more bytes, or another understanding.
#[test]
fn every_single_wrong_byte_is_survived() {
    for style in STYLES {
        let parts = conversation(style);
        for part in 0..parts.len() {
            for at in 0..parts[part].len() {
                for value in [0x00, 0x01, 0x7f, 0x80, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff, 0x20] {
                    let mut wrong = parts.clone();
                    wrong[part][at] = value;
                    let _ = play(&wrong, 100_000);
                    wrong[part][at] = parts[part][at] ^ value;
                    let _ = play(&wrong, 7);
                }
            }
        }
    }
}

#[test]
fn garbage_is_survived() {
    let mut state = 1_u64;
    for _ in 0..20_000 {
        let mut random = || {
            state = crate::workloads::mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
            state
        };
        let length = random() % 64;
        let garbage: Vec<u8> = (0..length).map(|_| random() as u8).collect();
        let part = (random() % 7) as usize;
        let mut parts = conversation(STYLES[(random() % 2) as usize]);
        let sequence = parts[part][3];
        parts[part] = packet(sequence, &garbage);
        let _ = play(&parts, 100_000);
        parts[part] = garbage;
        let _ = play(&parts, 100_000);
    }
}

#[test]
fn a_session_that_failed_stays_failed() {
    let mut session = Session::new("me", "", Channel::Open);
    feed(&mut session, &packet(0, b"HTTP/1.1"));
    assert!(session.next_event().is_err());
    assert!(session.next_event().is_err());
    assert!(session.query("SELECT 1").is_err());
}

#[test]
fn a_missing_plugin_is_named() {
    let greeting = packet(0, &script::greeting("8.0", "dialog"));
    let ask_again = packet(2, b"\xfesha256_password\0nonce\0");
    let error = play(&[greeting.clone(), ask_again], 1000).unwrap_err();
    assert_eq!(error, ClientError::Plugin("sha256_password".into()));
    // A server that asks for ever.
    let again = |sequence| packet(sequence, b"\xfemysql_native_password\0nonce\0");
    let error = play(&[greeting, again(2), again(4), again(6)], 1000).unwrap_err();
    assert!(matches!(error, ClientError::Protocol(ProtocolError::Unexpected(_))));
}

#[test]
fn words_out_of_turn_are_an_error() {
    let mut parts = conversation(u32::MAX);
    parts.truncate(3);
    let mut session = Session::new("me", "", Channel::Open);
    for part in parts {
        feed(&mut session, &part);
        while session.next_event().unwrap().is_some() {}
    }
    // A server that shuts down may say so.
    feed(&mut session, &packet(5, b"\xff\xbd\x0f#HY000shutting down"));
    assert!(matches!(session.next_event(), Err(ClientError::Refused(e)) if e.code == 4029));
}

#[test]
fn more_than_the_reply_is_an_error() {
    let mut parts = conversation(u32::MAX);
    parts.truncate(4);
    parts[3].extend_from_slice(&script::ok(9));
    assert!(play(&parts, 100_000).is_err());
}
