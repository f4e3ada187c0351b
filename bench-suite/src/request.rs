//! Reading the request and saying what is wrong with it.

use std::io::Read;

use model::message::FailedKind;
use model::request::{Arrival, Backend, Endpoint, Flexasync, Load, Workload};
use model::{PROTOCOL_VERSION, Request};

use crate::failure::Failure;

const MAX_CONNECTIONS: u32 = 100_000;
const MAX_THREADS: u32 = 1024;
/// A sum over all ids must fit what servers and JSON readers can hold.
const MAX_ROWS: u64 = 1 << 40;
const MAX_SECONDS: f64 = 1e7;
const MAX_RATE_PER_S: f64 = 1e8;
/// What fits the address of a UNIX socket on Linux, with its final zero byte.
const MAX_SOCKET_PATH_BYTES: usize = 107;

fn bad(detail: impl Into<String>) -> Failure {
    Failure::new(FailedKind::BadRequest, detail)
}

/// Reads one request, to the end of `from`.
pub fn read(mut from: impl Read) -> Result<Request, Failure> {
    let mut text = String::new();
    from.read_to_string(&mut text)
        .map_err(|error| bad(format!("cannot read the request from standard input: {error}")))?;
    parse(&text)
}

/// Parses and checks a request.
pub fn parse(text: &str) -> Result<Request, Failure> {
    if text.trim().is_empty() {
        return Err(bad("no request on standard input; try: bench-suite --example | bench-suite"));
    }
    let request: Request =
        serde_json::from_str(text).map_err(|error| bad(format!("the request cannot be read: {error}")))?;
    check(&request)?;
    Ok(request)
}

fn check(request: &Request) -> Result<(), Failure> {
    let version = request.protocol_version;
    if version != PROTOCOL_VERSION {
        return Err(bad(format!(
            "protocol_version is {version}, this binary speaks {PROTOCOL_VERSION}; \
             build the bench binary and the host from the same version"
        )));
    }
    check_load(&request.load)?;
    if let Workload::PointSelect { rows, .. } = request.workload {
        between("rows", rows, 1, MAX_ROWS)?;
    }
    if let Workload::Oltp(oltp) = &request.workload {
        // Their key is a signed 32-bit integer, and a range reaches beyond it.
        between("rows", oltp.rows, 1, (1 << 31) - 1000)?;
        between("tables", oltp.tables.into(), 1, 1000)?;
    }
    if let Workload::Flexasync(workload) = &request.workload {
        check_flexasync(workload)?;
        if !matches!(request.backend, Backend::Ndb { .. }) {
            return Err(bad("flexasync needs an NDB Cluster; it has no other back-end"));
        }
        if request.load.arrival != Arrival::Closed {
            return Err(bad("flexasync is a closed loop: it takes no rate"));
        }
    }
    if let Backend::Ndb { connect_string, .. } = &request.backend
        && connect_string.trim().is_empty()
    {
        return Err(bad("the connect string is empty"));
    }
    if let Backend::Server { endpoint, account, .. } = &request.backend {
        check_endpoint(endpoint)?;
        if account.user.contains('\0') || account.password.contains('\0') {
            return Err(bad("user and password must not hold a zero byte"));
        }
    }
    Ok(())
}

fn check_flexasync(workload: &Flexasync) -> Result<(), Failure> {
    // NDB's own limits: transactions of an Ndb object, columns and words of a row.
    between("parallel", workload.parallel.into(), 1, 1024)?;
    between("transactions", workload.transactions.into(), 1, 1 << 20)?;
    between("operations", workload.operations.into(), 1, 1024)?;
    between("attributes", workload.attributes.into(), 1, 500)?;
    between("attribute_words", workload.attribute_words.into(), 1, 2000)?;
    let words = u64::from(workload.attributes - 1) * u64::from(workload.attribute_words) + 2;
    between("words of a row", words, 2, 7000)?;
    between("tables", workload.tables.into(), 1, 100)?;
    between("load_factor", workload.load_factor.into(), 40, 99)?;
    between("operations of a phase", workload.operations_of_a_phase(), 1, 1 << 31)?;
    workload.loops.map_or(Ok(()), |loops| between("loops", loops.into(), 1, 1 << 20))
}

fn check_endpoint(endpoint: &Endpoint) -> Result<(), Failure> {
    match endpoint {
        Endpoint::Unix { path } => {
            let bytes = path.as_os_str().len();
            if !(1..=MAX_SOCKET_PATH_BYTES).contains(&bytes) {
                return Err(bad(format!(
                    "the socket's path has {bytes} bytes, a UNIX socket takes 1 to \
                     {MAX_SOCKET_PATH_BYTES}; use a shorter folder"
                )));
            }
        }
        Endpoint::Tcp { port, .. } => between("port", (*port).into(), 1, 65535)?,
    }
    Ok(())
}

fn check_load(load: &Load) -> Result<(), Failure> {
    between("connections", load.connections.into(), 1, MAX_CONNECTIONS.into())?;
    if let Some(threads) = load.threads {
        let most = MAX_THREADS.min(load.connections);
        between("threads", threads.into(), 1, most.into())?;
    }
    if let Some(operations) = load.operations {
        between("operations", operations, 1, 1 << 62)?;
    }
    if let Some(rate) = load.arrival.rate_per_s().filter(|rate| !(*rate > 0.0 && *rate <= MAX_RATE_PER_S)) {
        return Err(bad(format!("rate_per_s is {rate}, must be above 0 and at most {MAX_RATE_PER_S}")));
    }
    if !(0.0..=MAX_SECONDS).contains(&load.warmup_s) {
        return Err(bad(format!("warmup_s is {}, must be 0 to {MAX_SECONDS}", load.warmup_s)));
    }
    seconds("duration_s", load.duration_s)?;
    seconds("interval_s", load.interval_s)?;
    seconds("reply_timeout_s", load.reply_timeout_s)
}

fn between(name: &str, value: u64, least: u64, most: u64) -> Result<(), Failure> {
    match (least..=most).contains(&value) {
        true => Ok(()),
        false => Err(bad(format!("{name} is {value}, must be {least} to {most}"))),
    }
}

fn seconds(name: &str, value: f64) -> Result<(), Failure> {
    match value > 0.0 && value <= MAX_SECONDS {
        true => Ok(()),
        false => Err(bad(format!("{name} is {value}, must be above 0 and at most {MAX_SECONDS}"))),
    }
}

/// A request that can be run anywhere: the null back-end for a second.
pub fn example() -> Request {
    Request {
        protocol_version: PROTOCOL_VERSION,
        backend: Backend::Null,
        workload: Workload::PointSelect {
            statement: model::request::Statement::Prepared,
            rows: 10_000,
            engine: model::request::Engine::InnoDb,
        },
        load: Load {
            connections: 1,
            arrival: Arrival::Closed,
            threads: Some(1),
            warmup_s: 0.2,
            duration_s: 1.0,
            operations: None,
            seed: 1,
            interval_s: 1.0,
            reply_timeout_s: 30.0,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Request)) -> String {
        let mut request = example();
        change(&mut request);
        let failure = parse(&serde_json::to_string(&request).unwrap()).unwrap_err();
        assert_eq!(failure.exit_code(), 2);
        failure.detail
    }

    #[test]
    fn the_example_is_valid() {
        let text = serde_json::to_string_pretty(&example()).unwrap();
        assert_eq!(parse(&text).unwrap(), example());
    }

    #[test]
    fn garbage_is_placed_by_line_and_column() {
        let failure = parse("{\n \"nonsense\": 1}").unwrap_err();
        assert!(failure.detail.contains("line 2 column"), "{}", failure.detail);
        assert!(parse(" \n").unwrap_err().detail.contains("--example"));
    }

    #[test]
    fn senseless_values_are_named() {
        assert!(refused(|r| r.load.connections = 0).starts_with("connections is 0"));
        for rate_per_s in [0.0, -1.0, 1e30] {
            assert!(refused(|r| r.load.arrival = Arrival::Fixed { rate_per_s }).starts_with("rate_per_s"));
        }
        assert!(refused(|r| r.load.threads = Some(2)).starts_with("threads is 2, must be 1 to 1"));
        assert!(refused(|r| r.load.duration_s = 0.0).starts_with("duration_s"));
        assert!(refused(|r| r.load.duration_s = 1e300).starts_with("duration_s"));
        assert!(refused(|r| r.load.warmup_s = -1.0).starts_with("warmup_s"));
        assert!(refused(|r| r.load.interval_s = 0.0).starts_with("interval_s"));
        assert!(refused(|r| r.load.reply_timeout_s = -3.0).starts_with("reply_timeout_s"));
        assert!(refused(|r| r.load.operations = Some(0)).starts_with("operations"));
        assert!(refused(|r| r.protocol_version = 99).contains("same version"));
        let rows = |r: &mut Request| {
            r.workload = Workload::PointSelect {
                statement: model::request::Statement::Text,
                rows: 0,
                engine: model::request::Engine::InnoDb,
            };
        };
        assert!(refused(rows).starts_with("rows is 0"));
    }

    #[test]
    fn a_socket_path_that_cannot_be_is_told_before_connecting() {
        let detail = refused(|r| {
            r.backend = Backend::Server {
                endpoint: Endpoint::Unix { path: "/x".repeat(60).into() },
                account: model::request::Account { user: "u".into(), password: String::new() },
                server_pid: None,
            };
        });
        assert!(detail.contains("120 bytes"), "{detail}");
    }
}
