//! The TCP sockets of this host that listen, as `/proc/net/tcp` and `tcp6` show them (proc(5)).

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The state of a socket that listens, as the kernel numbers states.
const LISTEN: &str = "0A";

/// A socket that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Listener {
    ip: IpAddr,
    port: u16,
    /// The user ID of its process.
    pub(super) uid: u32,
    /// The number by which the host knows it.
    pub(super) inode: u64,
}

impl Listener {
    /// Those that get what is sent to an address of this host, or with an unspecified address to any of it.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub(super) fn all_at(address: SocketAddr) -> io::Result<Vec<Listener>> {
        let mut text = std::fs::read_to_string("/proc/net/tcp")?;
        match std::fs::read_to_string("/proc/net/tcp6") {
            Ok(more) => text.push_str(&more),
            // A host without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(text.lines().filter_map(Listener::parse).filter(|found| found.serves(address)).collect())
    }

    /// A line of a table; none if it is a heading or a socket that does not listen.
    fn parse(line: &str) -> Option<Listener> {
        let fields: Vec<&str> = line.split_ascii_whitespace().take(10).collect();
        let &[_, local, _, state, _, _, _, uid, _, inode] = fields.as_slice() else { return None };
        let (ip, port) = local.split_once(':')?;
        let listener = Listener {
            ip: parse_ip(ip)?,
            port: u16::from_str_radix(port, 16).ok()?,
            uid: uid.parse().ok()?,
            inode: inode.parse().ok()?,
        };
        (state == LISTEN).then_some(listener)
    }

    /// An unspecified IPv6 address may stand for IPv4, too.
    fn serves(&self, address: SocketAddr) -> bool {
        let is_same_kind = self.ip.is_ipv6() || address.is_ipv4();
        let is_meant = self.ip == address.ip().to_canonical()
            || self.ip.is_unspecified() && is_same_kind
            || address.ip().is_unspecified();
        self.port == address.port() && is_meant
    }
}

/// The words of an address are in the byte order of the host.
fn parse_ip(hexadecimal: &str) -> Option<IpAddr> {
    let words = hexadecimal.as_bytes().chunks(8);
    let words = words.map(|word| u32::from_str_radix(std::str::from_utf8(word).ok()?, 16).ok());
    let bytes: Vec<u8> =
        words.collect::<Option<Vec<u32>>>()?.iter().flat_map(|word| word.to_ne_bytes()).collect();
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        16 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?).to_canonical()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_socket_that_listens_is_found_with_its_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let _connected = TcpStream::connect(address).unwrap();
        let found = Listener::all_at(address).unwrap();
        let own = rustix::process::geteuid().as_raw();
        assert_eq!(found.iter().map(|found| found.uid).collect::<Vec<_>>(), [own]);
        // Of that address only.
        assert_eq!(Listener::all_at(([127, 0, 0, 9], address.port()).into()).unwrap(), []);
        drop(listener);
        assert_eq!(Listener::all_at(address).unwrap(), []);
        let anywhere = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = anywhere.local_addr().unwrap().port();
        assert_eq!(Listener::all_at(([127, 0, 0, 9], port).into()).unwrap().len(), 1);
    }

    #[test]
    #[cfg(target_endian = "little")]
    fn lines_of_both_tables_are_understood() {
        let four = "   0: 0100007F:1E1E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1001        0 77 1 0 100 0 0 10 0";
        let listener = Listener::parse(four).unwrap();
        let expected = Listener { ip: [127, 0, 0, 1].into(), port: 7710, uid: 1001, inode: 77 };
        assert_eq!(listener, expected);
        // Established.
        assert_eq!(Listener::parse(&four.replace(" 0A ", " 01 ")), None);
        assert_eq!(
            Listener::parse(
                "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
            ),
            None
        );
        let six = four.replace("0100007F", "0000000000000000FFFF00000100007F");
        assert_eq!(Listener::parse(&six).unwrap(), expected);
        let any = Listener::parse(&four.replace("0100007F", &"0".repeat(32))).unwrap();
        assert!(any.serves(([127, 0, 0, 1], 7710).into()) && !any.serves(([127, 0, 0, 1], 7711).into()));
    }
}
