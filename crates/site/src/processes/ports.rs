//! Where the tasks of a subjob are to listen: free ports of this host, kept for them until they start.
//!
//! A port is kept by a socket that is bound and does not listen: no other process is given it, and a client that connects too early is
//! refused, as by a task that is not there yet. It is let go right before the tasks start, since few programs could take
//! over a socket; in that instant another process may take the port, and then its task fails (`tasks/port.rs`).

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs, UdpSocket};

use tokio::net::TcpSocket;

/// Ports that are kept for tasks.
#[derive(Debug)]
pub struct Ports {
    kept: Vec<TcpSocket>,
    addresses: BTreeMap<String, String>,
}

impl Ports {
    /// Keeps a free port of the host that others reach under that name or address for each of the tasks.
    ///
    /// # Errors
    /// The name is not known here, or there are no free ports or sockets.
    pub fn find<'a>(host: &str, tasks: impl Iterator<Item = &'a str>) -> io::Result<Ports> {
        let own = resolved(&format!("{host}:0"))?;
        let mut ports = Ports { kept: Vec::new(), addresses: BTreeMap::new() };
        for task in tasks {
            let socket = match bound(own) {
                // Others reach this host by an address that is translated on the way.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => bound(anywhere(own)),
                bound => bound,
            }?;
            let port = socket.local_addr()?.port();
            ports.addresses.insert(task.to_owned(), format!("{host}:{port}"));
            ports.kept.push(socket);
        }
        Ok(ports)
    }

    /// Keeps ports that were found before, as far as no other process has taken them.
    pub fn keep_again(addresses: &BTreeMap<String, String>) -> Ports {
        let again = |address: &String| bound(resolved(address).ok()?).ok();
        Ports { kept: addresses.values().filter_map(again).collect(), addresses: addresses.clone() }
    }

    /// Where each task is to listen, `host:port`, by its name.
    pub fn addresses(&self) -> &BTreeMap<String, String> {
        &self.addresses
    }
}

/// The address of this host from which it reaches another one: under which the other reaches it, if nothing translates
/// addresses on the way.
///
/// # Errors
/// There is no way there, or the other's name is not known here.
pub(super) fn own_address(toward: &str) -> io::Result<String> {
    let toward = resolved(toward)?;
    // Nothing is sent.
    let socket = UdpSocket::bind(SocketAddr::new(anywhere(toward).ip(), 0))?;
    socket.connect(toward)?;
    Ok(match socket.local_addr()?.ip() {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    })
}

pub(super) fn resolved(address: &str) -> io::Result<SocketAddr> {
    let unknown = || io::Error::new(io::ErrorKind::NotFound, format!("`{address}` has no address here"));
    let found = address
        .to_socket_addrs()
        .map_err(|error| io::Error::new(error.kind(), format!("`{address}` has no address here: {error}")));
    found?.next().ok_or_else(unknown)
}

/// All addresses of the host, with the port of that one.
pub(super) fn anywhere(like: SocketAddr) -> SocketAddr {
    match like {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, like.port()).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, like.port()).into(),
    }
}

pub(super) fn bound(address: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.bind(address)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_kept_port_is_taken_refuses_early_clients_and_is_free_afterwards() {
        let ports = Ports::find("127.0.0.1", ["one", "two"].into_iter()).unwrap();
        let addresses = ports.addresses().clone();
        assert_ne!(addresses["one"], addresses["two"]);
        for address in addresses.values() {
            assert_eq!(TcpListener::bind(address).unwrap_err().kind(), io::ErrorKind::AddrInUse);
            assert_eq!(TcpStream::connect(address).unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        }
        drop(ports);
        let again = Ports::keep_again(&addresses);
        assert_eq!((again.kept.len(), again.addresses()), (2, &addresses));
        drop(again);
        let listening = TcpListener::bind(&addresses["one"]).unwrap();
        // What another process has taken meanwhile is lost.
        assert_eq!(Ports::keep_again(&addresses).kept.len(), 1);
        drop(listening);
    }

    #[test]
    fn a_host_is_found_by_the_way_to_another_one() {
        assert_eq!(own_address("127.0.0.1:9").unwrap(), "127.0.0.1");
        assert!(own_address("no-such-host.invalid:9").is_err());
        assert!(Ports::find("no-such-host.invalid", ["one"].into_iter()).is_err());
    }
}
