//! Why a run failed, on its way to the `failed` message and the exit code.

use model::message::{FailedKind, Measurement};

use crate::client::{ClientError, SUPPORTED_PLUGINS, ServerError};

/// A run that failed.
#[derive(Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Failure {
    /// Which kind.
    pub kind: FailedKind,
    /// What happened and what to do.
    pub detail: String,
    /// What had been measured until then.
    pub partial: Option<Box<Measurement>>,
}

impl Failure {
    /// A failure before anything was measured.
    pub fn new(kind: FailedKind, detail: impl Into<String>) -> Self {
        Failure { kind, detail: detail.into(), partial: None }
    }

    /// The same with what had been measured.
    pub fn with_partial(mut self, measurement: Measurement) -> Self {
        self.partial = Some(Box::new(measurement));
        self
    }

    /// The user ended the run before it measured anything.
    pub fn interrupted() -> Self {
        Failure::new(FailedKind::Interrupted, "interrupted before anything was measured")
    }

    /// What the bench binary exits with.
    pub fn exit_code(&self) -> u8 {
        match self.kind {
            FailedKind::BadRequest => 2,
            FailedKind::WrongData => 4,
            FailedKind::Interrupted => 130,
            _ => 3,
        }
    }

    /// The server ended a login.
    pub fn login(user: &str, plugin: &str, error: &ClientError) -> Self {
        let kind = match error {
            ClientError::Protocol(_) => FailedKind::Protocol,
            ClientError::Plugin(_) | ClientError::Authentication(_) => FailedKind::Authentication,
            ClientError::Refused(error) => refusal(error),
        };
        let with = if plugin.is_empty() { String::new() } else { format!(" with {plugin}") };
        let mut detail = format!("cannot log in as {user}{with}: {error}");
        if kind == FailedKind::Authentication {
            detail += &format!(
                "; supported plugins: {}; \
                 to use one on MariaDB run: ALTER USER '{user}'@'HOST' IDENTIFIED VIA \
                 mysql_native_password USING PASSWORD('...'); \
                 on MySQL: ALTER USER '{user}'@'HOST' IDENTIFIED WITH caching_sha2_password BY '...'",
                SUPPORTED_PLUGINS.join(", ")
            );
        }
        Failure::new(kind, detail)
    }
}

/// The server is full, or has another reason.
fn refusal(error: &ServerError) -> FailedKind {
    match error.code {
        // Too many connections: in all, of this user, of this user in this hour.
        1040 | 1203 | 1226 => FailedKind::Limit,
        // Access denied in its forms: password, host, plugin not loaded, account locked, TLS required.
        1044 | 1045 | 1130 | 1156..=1159 | 1251 | 1275 | 1524 | 1698 | 3118 | 3159 | 4151 => {
            FailedKind::Authentication
        }
        _ => FailedKind::CannotConnect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_denied_says_what_to_run() {
        let error = ServerError { code: 1045, message: "Access denied for user 'x'".into() };
        let failure = Failure::login("x", "client_ed25519", &ClientError::Refused(error));
        assert_eq!(failure.kind, FailedKind::Authentication);
        assert!(failure.detail.starts_with("cannot log in as x with client_ed25519: Access"));
        assert!(failure.detail.contains("client_ed25519"));
        assert!(failure.detail.contains("ALTER USER 'x'@'HOST' IDENTIFIED VIA mysql_native_password"));
        let plugin = Failure::login("x", "", &ClientError::Plugin("sha256_password".into()));
        assert!(plugin.detail.contains("sha256_password"));
        assert_eq!(plugin.exit_code(), 3);
    }

    #[test]
    fn a_full_server_is_a_limit() {
        let error = ServerError { code: 1040, message: "Too many connections".into() };
        let failure = Failure::login("x", "", &ClientError::Refused(error));
        assert_eq!(failure.kind, FailedKind::Limit);
    }
}
