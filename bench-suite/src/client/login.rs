//! One login from the first proof to the server's yes: plugins that ask once, and caching_sha2_password, which may ask
//! three times.
//!
//! MySQL keeps a digest of each password that it has seen since its start. While it has one, a proof is enough
//! (*fast*).
//! Otherwise it wants the password itself (*full*): as it is over a UNIX socket, which nobody can listen to, and
//! encrypted with the server's public key over TCP, because this client has no TLS.

use super::auth::{self, CACHING_SHA2};
use super::{ClientError, ProtocolError};

/// A plugin that asks again and again would keep us here for ever.
const MOST_SWITCHES: u8 = 2;

/// What the bytes go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A UNIX socket: a password may go over it as it is.
    Local,
    /// TCP without TLS: it may not.
    Open,
}

/// How a login by caching_sha2_password was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authentication {
    /// By a proof that the server could check with what it has cached.
    Fast,
    /// By the password itself.
    Full,
}

/// What the server has been sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Proof,
    KeyRequest,
    Password,
}

/// What caching_sha2_password's further bytes mean.
mod further {
    /// From the server: the proof was right, OK follows.
    pub const FAST: u8 = 3;
    /// From the server: the password is needed.
    pub const FULL: u8 = 4;
    /// From us: the public key is needed.
    pub const KEY_REQUEST: u8 = 2;
}

/// A login that is going on.
#[derive(Debug)]
pub struct Login {
    password: String,
    channel: Channel,
    plugin: String,
    nonce: Vec<u8>,
    sent: Sent,
    switches: u8,
    done_by: Option<Authentication>,
}

impl Login {
    /// One that has not begun.
    pub fn new(password: &str, channel: Channel) -> Self {
        Login {
            password: password.into(),
            channel,
            plugin: String::new(),
            nonce: Vec::new(),
            sent: Sent::Proof,
            switches: 0,
            done_by: None,
        }
    }

    /// The plugin that was used last.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    /// How caching_sha2_password did it; `None` for other plugins and for an empty password.
    pub fn done_by(&self) -> Option<Authentication> {
        self.done_by
    }

    /// The proof that goes with the answer to the greeting.
    ///
    /// The server's default plugin need not be the account's: if we lack it, the server asks for another one.
    pub fn begin(&mut self, plugin: &str, nonce: &[u8]) -> Vec<u8> {
        match auth::respond(plugin, &self.password, nonce) {
            Some(proof) => {
                self.use_plugin(plugin, nonce);
                proof
            }
            None => {
                self.use_plugin("mysql_native_password", nonce);
                Vec::new()
            }
        }
    }

    /// The proof for the plugin that the server asks for instead.
    pub fn switch(&mut self, plugin: &str, nonce: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.switches += 1;
        if self.switches > MOST_SWITCHES {
            return Err(ProtocolError::Unexpected("a third plugin").into());
        }
        self.use_plugin(plugin, nonce);
        auth::respond(plugin, &self.password, nonce).ok_or_else(|| ClientError::Plugin(plugin.into()))
    }

    fn use_plugin(&mut self, plugin: &str, nonce: &[u8]) {
        self.plugin = plugin.into();
        self.nonce = nonce.to_vec();
        self.sent = Sent::Proof;
        self.done_by = None;
    }

    /// The answer to further bytes of the plugin's own, which stand behind 0x01; `None`: nothing is to be sent.
    pub fn more(&mut self, bytes: &[u8]) -> Result<Option<Vec<u8>>, ClientError> {
        if self.plugin != CACHING_SHA2 || self.password.is_empty() {
            return Err(ClientError::Plugin(self.plugin.clone()));
        }
        match (self.sent, bytes) {
            (Sent::Proof, [further::FAST]) if self.done_by.is_none() => {
                self.done_by = Some(Authentication::Fast);
                Ok(None)
            }
            (Sent::Proof, [further::FULL]) if self.done_by.is_none() => {
                self.done_by = Some(Authentication::Full);
                Ok(Some(match self.channel {
                    Channel::Local => {
                        self.sent = Sent::Password;
                        [self.password.as_bytes(), &[0]].concat()
                    }
                    Channel::Open => {
                        self.sent = Sent::KeyRequest;
                        vec![further::KEY_REQUEST]
                    }
                }))
            }
            (Sent::KeyRequest, pem) => {
                self.sent = Sent::Password;
                let sent = auth::encrypted(&self.password, &self.nonce, pem);
                sent.map(Some).map_err(ClientError::Authentication)
            }
            _ => Err(ProtocolError::Unexpected("bytes of an authentication plugin").into()),
        }
    }
}

#[cfg(test)]
mod tests;
