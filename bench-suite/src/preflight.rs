//! Do the limits of server and machine suffice? Computed before any load, so that no run dies of them in
//! its middle.

use model::message::FailedKind;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::control::{Control, ControlError};
use crate::failure::Failure;

/// Files of this process beside its connections: standard streams, the control connection, what libraries
/// open.
const OTHER_FILES: u64 = 16;
/// A thread's epoll descriptor and its copy.
const FILES_A_THREAD: u64 = 3;
/// Files the server opens beside its connections, at the least.
const FILES_OF_SERVER: u64 = 32;

fn too_low(name: &str, needed: u64, actual: u64, cure: &str) -> Failure {
    let detail = format!("{name} is {actual}, this load needs {needed}; {cure}");
    Failure::new(FailedKind::Limit, detail)
}

/// Raises this process's limit of open files as far as needed.
pub fn raise_file_limit(connections: u32, threads: u32) -> Result<(), Failure> {
    let needed = u64::from(connections) + u64::from(threads) * FILES_A_THREAD + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    // No number: unlimited.
    let Some(current) = limit.current.filter(|&current| current < needed) else { return Ok(()) };
    let reachable = limit.maximum.unwrap_or(u64::MAX);
    let cure = "raise it with ulimit -n, or ask for fewer connections";
    if reachable < needed {
        return Err(too_low("the client's limit of open files", needed, reachable, cure));
    }
    let raised = Rlimit { current: Some(needed), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)
        .map_err(|_| too_low("the client's limit of open files", needed, current, cure))
}

/// What the server allows and already uses.
#[derive(Clone, Copy, Debug, Default)]
struct Limits {
    max_connections: u64,
    threads_connected: u64,
    max_user_connections: u64,
    max_prepared: u64,
    prepared: u64,
    open_files: u64,
}

/// Asks the server for its limits and compares.
pub fn check_server(control: &mut Control, connections: u32, statements: u64) -> Result<(), Failure> {
    let limits = read(control)
        .map_err(|e| e.into_failure("reading the server's limits", FailedKind::CannotConnect))?;
    compare(&limits, connections.into(), statements)
}

fn read(control: &mut Control) -> Result<Limits, ControlError> {
    let variables = control.query(
        "SELECT @@max_connections, @@max_user_connections, @@max_prepared_stmt_count, \
         @@open_files_limit",
    )?;
    let variables = variables.concat();
    let variable = |i: usize| variables.get(i).and_then(|v: &String| v.parse().ok()).unwrap_or(0);
    let mut status = |name: &str| -> Result<u64, ControlError> {
        let row = control.query(&format!("SHOW GLOBAL STATUS LIKE '{name}'"))?.concat();
        Ok(row.get(1).and_then(|value| value.parse().ok()).unwrap_or(0))
    };
    Ok(Limits {
        threads_connected: status("Threads_connected")?,
        prepared: status("Prepared_stmt_count")?,
        max_connections: variable(0),
        max_user_connections: variable(1),
        max_prepared: variable(2),
        open_files: variable(3),
    })
}

fn compare(limits: &Limits, connections: u64, statements: u64) -> Result<(), Failure> {
    let needed = connections + limits.threads_connected;
    if limits.max_connections < needed {
        let cure = format!(
            "it counts {} connected now; run: SET GLOBAL max_connections={needed}",
            limits.threads_connected
        );
        return Err(too_low("the server's max_connections", needed, limits.max_connections, &cure));
    }
    // Zero: no limit. The control connection counts.
    if (1..connections + 1).contains(&limits.max_user_connections) {
        let (name, actual) = ("the server's max_user_connections", limits.max_user_connections);
        return Err(too_low(name, connections + 1, actual, "raise it, or set it to 0"));
    }
    let needed = connections * statements + limits.prepared;
    if statements > 0 && limits.max_prepared < needed {
        let cure = format!("run: SET GLOBAL max_prepared_stmt_count={needed}");
        let (name, actual) = ("the server's max_prepared_stmt_count", limits.max_prepared);
        return Err(too_low(name, needed, actual, &cure));
    }
    let needed = connections + limits.threads_connected + FILES_OF_SERVER;
    if (1..needed).contains(&limits.open_files) {
        let cure = "restart it with a higher open_files_limit (and ulimit -n)";
        let (name, actual) = ("the server's open_files_limit", limits.open_files);
        return Err(too_low(name, needed, actual, cure));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOMY: Limits = Limits {
        max_connections: 151,
        threads_connected: 1,
        max_user_connections: 0,
        max_prepared: 16382,
        prepared: 0,
        open_files: 32000,
    };

    fn detail(limits: Limits, connections: u64) -> String {
        let failure = compare(&limits, connections, 1).unwrap_err();
        assert_eq!(failure.kind, FailedKind::Limit);
        failure.detail
    }

    #[test]
    fn limits_that_suffice_pass() {
        compare(&ROOMY, 150, 1).unwrap();
        compare(&Limits { max_prepared: 0, open_files: 0, ..ROOMY }, 150, 0).unwrap();
    }

    #[test]
    fn a_limit_that_is_too_low_is_named_with_both_numbers() {
        let text = detail(ROOMY, 151);
        assert!(text.starts_with("the server's max_connections is 151, this load needs 152"), "{text}");
        let text = detail(Limits { max_prepared: 10, prepared: 3, ..ROOMY }, 8);
        assert!(text.contains("max_prepared_stmt_count is 10, this load needs 11"), "{text}");
        let failure = compare(&Limits { max_prepared: 100, ..ROOMY }, 8, 13).unwrap_err();
        assert!(failure.detail.contains("max_prepared_stmt_count is 100, this load needs 104"), "{failure}");
        let text = detail(Limits { open_files: 100, ..ROOMY }, 100);
        assert!(text.contains("open_files_limit is 100, this load needs 133"), "{text}");
        let text = detail(Limits { max_user_connections: 5, ..ROOMY }, 5);
        assert!(text.contains("max_user_connections is 5, this load needs 6"), "{text}");
    }

    #[test]
    fn the_clients_own_limit_is_raised_or_named() {
        raise_file_limit(1, 1).unwrap();
        let failure = raise_file_limit(u32::MAX, 1);
        if let Err(failure) = failure {
            assert_eq!(failure.kind, FailedKind::Limit);
        }
    }
}
