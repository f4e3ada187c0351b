//! Sockets: UNIX or TCP with `TCP_NODELAY`, never blocking.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use model::request::Endpoint;

use crate::client::Channel;

/// A connected (or connecting) socket.
#[derive(Debug)]
pub enum Socket {
    /// A UNIX socket.
    Unix(mio::net::UnixStream),
    /// A TCP connection.
    Tcp(mio::net::TcpStream),
}

impl Socket {
    /// Begins to connect. A UNIX socket whose queue is full says [`io::ErrorKind::WouldBlock`]; a TCP
    /// connection that is refused says so at the first read.
    pub fn connect(endpoint: &Endpoint) -> io::Result<Socket> {
        match endpoint {
            Endpoint::Unix { path } => mio::net::UnixStream::connect(path).map(Socket::Unix),
            Endpoint::Tcp { address, port } => {
                let stream = mio::net::TcpStream::connect(SocketAddr::new(*address, *port))?;
                stream.set_nodelay(true)?;
                Ok(Socket::Tcp(stream))
            }
        }
    }
}

impl Read for Socket {
    #[inline]
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.read(buffer),
            Socket::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(stream) => stream.write(bytes),
            Socket::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.register(registry, token, on),
            Socket::Tcp(stream) => stream.register(registry, token, on),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, on: Interest) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.reregister(registry, token, on),
            Socket::Tcp(stream) => stream.reregister(registry, token, on),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Unix(stream) => stream.deregister(registry),
            Socket::Tcp(stream) => stream.deregister(registry),
        }
    }
}

/// An endpoint as messages print it.
pub fn describe(endpoint: &Endpoint) -> String {
    match endpoint {
        Endpoint::Unix { path } => format!("unix socket {}", path.display()),
        Endpoint::Tcp { address, port } => format!("tcp {}", SocketAddr::new(*address, *port)),
    }
}

/// Who may listen to what goes to an endpoint.
pub fn channel(endpoint: &Endpoint) -> Channel {
    match endpoint {
        Endpoint::Unix { .. } => Channel::Local,
        Endpoint::Tcp { .. } => Channel::Open,
    }
}

/// Whether nobody listens there: the server is not running.
pub fn nobody_listens(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}
