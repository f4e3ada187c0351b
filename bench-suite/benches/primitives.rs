//! Criterion benches of what an operation is made of; never of load: that is what the bench binary itself
//! measures.
#![allow(missing_docs, reason = "criterion_group! makes a function without any")]

use std::hint::black_box;
use std::time::Instant;

use bench_suite::client::{Channel, Event, Expect, Session, command};
use bench_suite::engine::Recorder;
use bench_suite::workloads::{self, random, scale};
use criterion::{Criterion, criterion_group, criterion_main};
use model::request::{Engine, Statement, Workload};

/// A logged-in session, made from the bytes a server would send.
fn logged_in() -> Session {
    let mut greeting = b"\x0a8.0\0\x09\0\0\0ABCDEFGH\0\xff\xff\x2d\x02\0\xff\xff\x15".to_vec();
    greeting.extend_from_slice(&[0; 10]);
    greeting.extend_from_slice(b"abcdefghijkl\0mysql_native_password\0");
    let mut session = Session::new("bench", "", Channel::Local);
    receive(&mut session, 0, &greeting);
    assert!(session.next_event().is_ok_and(|event| event.is_none()));
    receive(&mut session, 2, &[0, 0, 0, 2, 0, 0, 0]);
    assert!(matches!(session.next_event(), Ok(Some(Event::LoggedIn))));
    session
}

fn receive(session: &mut Session, sequence: u8, payload: &[u8]) {
    let space = session.space();
    space[..3].copy_from_slice(&(payload.len() as u32).to_le_bytes()[..3]);
    space[3] = sequence;
    space[4..4 + payload.len()].copy_from_slice(payload);
    session.received(4 + payload.len());
}

fn key_choice(c: &mut Criterion) {
    let mut number = 0;
    c.bench_function("choose a key", |b| {
        b.iter(|| {
            number += 1;
            scale(random(black_box(1), number), black_box(10_000))
        });
    });
}

fn packets(c: &mut Criterion) {
    for statement in [Statement::Prepared, Statement::Text] {
        let request = Workload::PointSelect { statement, rows: 10_000, engine: Engine::InnoDb };
        let Ok(workload) = workloads::make(&request, 1) else { continue };
        let mut out = Vec::new();
        let mut number = 0;
        c.bench_function(&format!("encode {}", request.label()), |b| {
            b.iter(|| {
                out.clear();
                number += 1;
                workload.encode(number, 0, &[1], &mut out);
                black_box(&out);
            });
        });
    }
    let mut session = logged_in();
    let row = [&[0, 0, 120], [b'a'; 120].as_slice()].concat();
    c.bench_function("command and reply of one row", |b| {
        b.iter(|| {
            session.begin_command().expect("idle").push(command::STMT_EXECUTE);
            session.end_command(Expect::Binary);
            receive(&mut session, 1, &[1]);
            receive(&mut session, 2, &[0; 24]);
            receive(&mut session, 3, &row);
            receive(&mut session, 4, &[0xfe, 0, 0, 2, 0, 0, 0]);
            black_box(session.next_event().expect("a reply"));
        });
    });
}

fn recording(c: &mut Criterion) {
    let mut recorder = Recorder::default();
    let mut latency = 0;
    c.bench_function("record a latency", |b| {
        b.iter(|| {
            latency = (latency + 997) % 1_000_000;
            recorder.success(black_box(latency));
        });
    });
    c.bench_function("read the clock", |b| b.iter(Instant::now));
}

criterion_group!(primitives, key_choice, packets, recording);
criterion_main!(primitives);
