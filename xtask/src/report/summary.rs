//! Records for programs: what the tables show, as JSON, unrounded and with whole reasons.

use std::path::Path;

use model::message::Measurement;
use model::record::Line;
use serde::Serialize;

use super::row::{self, Row};
use super::{caveats, outcome};

/// One record.
#[derive(Serialize)]
pub struct Summary {
    file: String,
    id: Option<String>,
    target: Option<String>,
    machine: Option<String>,
    /// Base pages of the server's machine.
    page_bytes: Option<u64>,
    build: Option<String>,
    /// `complete`, `interrupted`, `failed`, or `unknown` where the writer was killed.
    outcome: &'static str,
    reason: Option<String>,
    caveats: Vec<String>,
    workloads: Vec<Workload>,
}

/// One workload.
#[derive(Serialize)]
struct Workload {
    workload: String,
    client: String,
    transport: String,
    connections: u32,
    status: String,
    reason: Option<String>,
    /// `verified`, `before only`, `WRONG`, or null where it was not checked.
    data: Option<&'static str>,
    /// As the record has it, without the histogram.
    measurement: Option<Measurement>,
}

/// A record in short.
pub fn summary(file: &Path, record: &[Line]) -> Summary {
    let (outcome, reason) = outcome(record);
    let id = match record.first() {
        Some(Line::Header(header)) => Some(header.id.clone()),
        _ => None,
    };
    let rows = row::of(record);
    let first = rows.first();
    Summary {
        file: file.display().to_string(),
        id,
        target: first.map(|row| row.target.clone()),
        machine: first.map(|row| row.machine.clone()),
        page_bytes: first.and_then(|row| row.page_bytes),
        build: first.map(|row| row.build.clone()),
        outcome,
        reason,
        caveats: caveats(record),
        workloads: rows.into_iter().filter_map(workload).collect(),
    }
}

fn workload(row: Row) -> Option<Workload> {
    let asked = row.workload?;
    let mut measurement = row.measured;
    if let Some(measured) = &mut measurement {
        let service = measured.open_loop.as_mut().and_then(|open| open.service.as_mut());
        for latency in measured.latency.as_mut().into_iter().chain(service) {
            latency.histogram_ns_hdr_base64.clear();
        }
    }
    Some(Workload {
        workload: asked.label,
        client: asked.client,
        transport: asked.transport,
        connections: asked.connections,
        status: row.status.word,
        reason: row.status.reason,
        data: row.data,
        measurement,
    })
}
