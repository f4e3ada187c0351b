//! One connection's conversation: greeting, login, then a command and its reply, again and again.

use super::handshake::{AuthSwitch, Greeting, capability};
use super::login::{Authentication, Channel, Login};
use super::packet::{Framer, begin_command, end_command, put_packets};
use super::reply::{End, Expect, Reply, Scanner, parse_ok};
use super::{ClientError, ProtocolError, ServerError, command};

/// Where the conversation is.
#[derive(Debug)]
enum State {
    Greeting,
    Login,
    Idle,
    Reply,
    Over,
}

/// A client's side of one connection. It holds no socket: the caller moves bytes between it and one.
#[derive(Debug)]
pub struct Session {
    state: State,
    framer: Framer,
    scanner: Scanner,
    outgoing: Vec<u8>,
    sent: usize,
    user: String,
    login: Login,
    version: String,
    eof_deprecated: bool,
}

/// Something happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// The server accepted us.
    LoggedIn,
    /// The reply to the last command is complete.
    Reply(Reply<'a>),
}

impl Session {
    /// A conversation that has not begun; the server speaks first.
    ///
    /// What it goes over decides how caching_sha2_password may send a password.
    pub fn new(user: &str, password: &str, channel: Channel) -> Self {
        Session {
            state: State::Greeting,
            framer: Framer::default(),
            scanner: Scanner::default(),
            outgoing: Vec::new(),
            sent: 0,
            user: user.into(),
            login: Login::new(password, channel),
            version: String::new(),
            eof_deprecated: false,
        }
    }

    /// The plugin that the login used last.
    pub fn plugin(&self) -> &str {
        self.login.plugin()
    }

    /// How caching_sha2_password logged us in; `None` where another plugin did, or an empty password.
    pub fn authentication(&self) -> Option<Authentication> {
        self.login.done_by()
    }

    /// The server's version, as it greeted us.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Where to read bytes into; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        self.framer.space()
    }

    /// `count` bytes were read into [`Session::space`].
    pub fn received(&mut self, count: usize) {
        self.framer.received(count);
    }

    /// Bytes to be sent.
    pub fn outgoing(&self) -> &[u8] {
        &self.outgoing[self.sent..]
    }

    /// The first `count` bytes of [`Session::outgoing`] were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent = (self.sent + count).min(self.outgoing.len());
    }

    /// What the bytes received so far mean; `None` until more come.
    ///
    /// After an error the conversation is over, and every further call is an error too.
    pub fn next_event(&mut self) -> Result<Option<Event<'_>>, ClientError> {
        match self.advance() {
            Ok(None) => Ok(None),
            Ok(Some(Advance::LoggedIn)) => Ok(Some(Event::LoggedIn)),
            Ok(Some(Advance::Reply(end))) => Ok(Some(Event::Reply(match end {
                End::Ok(ok) => Reply::Ok(ok),
                End::Error(error) => Reply::Error(error),
                End::Prepared(prepared) => Reply::Prepared(prepared),
                End::Rows => Reply::Rows(self.scanner.rows(&self.framer)),
            }))),
            Err(error) => {
                self.state = State::Over;
                Err(error)
            }
        }
    }

    fn advance(&mut self) -> Result<Option<Advance>, ClientError> {
        while let Some(range) = self.framer.next_payload()? {
            match self.state {
                State::Reply => {
                    let end = self.scanner.take(&self.framer, range, self.eof_deprecated)?;
                    if let Some(end) = end {
                        self.state = State::Idle;
                        return Ok(Some(Advance::Reply(end)));
                    }
                }
                State::Greeting => {
                    let greeting = Greeting::parse(self.framer.payload(&range))?;
                    self.greeted(&greeting)?;
                }
                State::Login => {
                    let payload = self.framer.payload(&range).to_vec();
                    if self.login_step(&payload)? {
                        self.state = State::Idle;
                        return Ok(Some(Advance::LoggedIn));
                    }
                }
                State::Idle => return Err(unasked(self.framer.payload(&range))),
                State::Over => return Err(ProtocolError::Unexpected("bytes after an error").into()),
            }
        }
        match self.state {
            State::Over => Err(ProtocolError::Unexpected("a conversation that is over").into()),
            _ => Ok(None),
        }
    }

    fn greeted(&mut self, greeting: &Greeting) -> Result<(), ClientError> {
        // MariaDB before 11 greets as 5.5.5-10.x, for the sake of old replicas.
        let version = greeting.version.strip_prefix("5.5.5-").unwrap_or(&greeting.version);
        self.version = version.into();
        self.eof_deprecated = greeting.capabilities & capability::DEPRECATE_EOF != 0;
        let proof = self.login.begin(&greeting.plugin, &greeting.nonce);
        let answer = greeting.answer(&self.user, self.login.plugin(), &proof);
        self.send(&answer);
        self.state = State::Login;
        Ok(())
    }

    /// Whether the login is complete.
    fn login_step(&mut self, payload: &[u8]) -> Result<bool, ClientError> {
        match *payload.first().ok_or(ProtocolError::Short)? {
            0x00 => {
                parse_ok(payload)?;
                Ok(true)
            }
            0xff => Err(ClientError::Refused(ServerError::parse(payload)?)),
            0xfe => {
                let switch = AuthSwitch::parse(payload)?;
                let proof = self.login.switch(&switch.plugin, &switch.nonce)?;
                self.send(&proof);
                Ok(false)
            }
            0x01 => {
                if let Some(answer) = self.login.more(&payload[1..])? {
                    self.send(&answer);
                }
                Ok(false)
            }
            _ => Err(ProtocolError::Malformed("an answer to the login").into()),
        }
    }

    fn send(&mut self, payload: &[u8]) {
        self.outgoing.clear();
        self.sent = 0;
        put_packets(&mut self.outgoing, self.framer.sequence(), payload);
        self.framer.skip_sequence();
    }

    /// Begins a command: the caller appends its payload to the returned bytes and calls
    /// [`Session::end_command`].
    #[inline]
    pub fn begin_command(&mut self) -> Result<&mut Vec<u8>, ClientError> {
        if !matches!(self.state, State::Idle) {
            return Err(ProtocolError::Unexpected("a command before the last reply").into());
        }
        self.framer.begin(1)?;
        self.sent = 0;
        begin_command(&mut self.outgoing);
        Ok(&mut self.outgoing)
    }

    /// Ends a command, whose bytes are now [`Session::outgoing`].
    #[inline]
    pub fn end_command(&mut self, expect: Expect) {
        end_command(&mut self.outgoing);
        let packets = self.outgoing.len() / (super::packet::MAX_PAYLOAD_BYTES + 4);
        if packets > 0 {
            // Each packet of a long command takes a number, and the reply continues from there.
            let _ = self.framer.begin((packets + 1) as u8);
        }
        self.scanner.begin(expect);
        self.state = State::Reply;
    }

    /// Forgets a prepared statement, which the server does not answer.
    pub fn close_statement(&mut self, statement: u32) -> Result<(), ClientError> {
        let out = self.begin_command()?;
        out.push(command::STMT_CLOSE);
        out.extend_from_slice(&statement.to_le_bytes());
        end_command(out);
        Ok(())
    }

    /// Takes leave; the server answers by closing.
    pub fn quit(&mut self) -> Result<(), ClientError> {
        let out = self.begin_command()?;
        out.push(command::QUIT);
        end_command(out);
        self.state = State::Over;
        Ok(())
    }

    /// Sends a statement as text.
    pub fn query(&mut self, sql: &str) -> Result<(), ClientError> {
        self.text_command(command::QUERY, sql, Expect::Text)
    }

    /// Prepares a statement.
    pub fn prepare(&mut self, sql: &str) -> Result<(), ClientError> {
        self.text_command(command::STMT_PREPARE, sql, Expect::Prepared)
    }

    fn text_command(&mut self, byte: u8, sql: &str, expect: Expect) -> Result<(), ClientError> {
        let out = self.begin_command()?;
        out.push(byte);
        out.extend_from_slice(sql.as_bytes());
        self.end_command(expect);
        Ok(())
    }
}

enum Advance {
    LoggedIn,
    Reply(End),
}

/// Bytes that came while nothing was asked: a server that is closing may say why.
fn unasked(payload: &[u8]) -> ClientError {
    match payload.first() {
        Some(0xff) => match ServerError::parse(payload) {
            Ok(error) => ClientError::Refused(error),
            Err(error) => error.into(),
        },
        _ => ProtocolError::Unexpected("a packet that nothing asked for").into(),
    }
}
