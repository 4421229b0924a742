//! What the programs of a run try to reach beyond its network, for the report. Nothing is decided here:
//! there is no route, and no name is found.
//!
//! In tier A, the supervisor answers on the loopback interface where programs look for a name server
//! (there is no `/etc/resolv.conf`): no name exists. So they fail at once, instead of waiting for an
//! answer. Addresses are read when a program connects to them. In tier B, no socket is opened.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;

use super::gate::PendingCall;
use crate::dns::refuse_question;
use crate::{Attempt, Tier};

/// The number of different attempts that are kept.
const MAX_ATTEMPTS: usize = 16;

/// The number of questions that are answered before other events are handled.
const MAX_QUESTIONS: usize = 16;

/// The longest question that is read, in bytes.
const MAX_QUESTION_BYTES: usize = 1024;

/// Where programs look for a name server without a configuration.
const NAME_SERVER: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 53);

/// The attempts of a run.
pub(super) struct Attempts {
    /// The socket of the name server. Without it, questions fail at once, and are not known.
    names: Option<UdpSocket>,
    found: Vec<Attempt>,
}

impl Attempts {
    /// Watches a run in a tier. In tier A, this process is in the run's network namespace.
    pub(super) fn new(tier: Tier) -> Self {
        let bound = || {
            let socket = UdpSocket::bind(NAME_SERVER).ok()?;
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        };
        let names = match tier {
            Tier::A => bound(),
            Tier::B => None,
        };
        Self { names, found: Vec::new() }
    }

    /// The descriptor that is readable when a question has come.
    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.names.as_ref().map(UdpSocket::as_fd)
    }

    /// Answers the questions that have come, without waiting.
    pub(super) fn answer(&mut self) {
        let mut buffer = [0; MAX_QUESTION_BYTES];
        for _ in 0..MAX_QUESTIONS {
            let Some(socket) = &self.names else { return };
            let Ok((length, from)) = socket.recv_from(&mut buffer) else { return };
            let Some((name, answer)) = refuse_question(&buffer[..length]) else { continue };
            // A program that does not receive it gets no answer.
            let _ = socket.send_to(&answer, from);
            if is_beyond(&name) {
                self.note(Attempt::Name(name));
            }
        }
    }

    /// Looks at a waiting call: connecting, or opening a socket where there are none.
    pub(super) fn look(&mut self, call: &PendingCall) {
        match call.call {
            libc::SYS_connect => {
                if let Some(address) = address(call).filter(|address| is_public(address.ip())) {
                    self.note(Attempt::Address(address));
                }
            }
            libc::SYS_socket => {
                let family = call.arguments[0] as i32;
                if [libc::AF_INET, libc::AF_INET6].contains(&family) {
                    self.note(Attempt::Socket);
                }
            }
            _ => {}
        }
    }

    /// What was tried, in the order of the first attempts.
    pub(super) fn into_found(self) -> Vec<Attempt> {
        self.found
    }

    fn note(&mut self, attempt: Attempt) {
        if self.found.len() < MAX_ATTEMPTS && !self.found.contains(&attempt) {
            self.found.push(attempt);
        }
    }
}

/// Whether a name is one of another machine: not one of this machine or its local network, and not
/// that of an address.
fn is_beyond(name: &str) -> bool {
    const LOCAL: [&str; 6] = ["localhost", "localdomain", "local", "internal", "lan", "arpa"];
    name.rsplit_once('.').is_some_and(|(_, last)| !LOCAL.contains(&last))
}

/// Reads the address of a `connect`: ip(7), ipv6(7). It may be changed afterwards, by another thread.
fn address(call: &PendingCall) -> Option<SocketAddr> {
    let mut bytes = [0; size_of::<libc::sockaddr_in6>()];
    let length = usize::try_from(call.arguments[2]).ok()?.min(bytes.len());
    let process = format!("/proc/{}/mem", call.thread.as_raw_nonzero());
    let memory = std::fs::File::open(process).ok()?;
    memory.read_exact_at(bytes.get_mut(..length)?, call.arguments[1]).ok()?;
    let family = i32::from(u16::from_ne_bytes([bytes[0], bytes[1]]));
    let port = u16::from_be_bytes([bytes[2], bytes[3]]);
    let ip: IpAddr = match family {
        libc::AF_INET if length >= size_of::<libc::sockaddr_in>() => {
            <[u8; 4]>::try_from(&bytes[4..8]).ok()?.into()
        }
        libc::AF_INET6 if length >= 24 => <[u8; 16]>::try_from(&bytes[8..24]).ok()?.into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip.to_canonical(), port))
}

/// Whether an address may be one of another machine on the Internet.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let shared = Ipv4Addr::from_bits(address.to_bits() & 0xffc0_0000);
            !(address.is_loopback()
                || address.is_private()
                || address.is_link_local()
                || address.is_multicast()
                || address.is_broadcast()
                || address.octets()[0] == 0
                || shared == Ipv4Addr::new(100, 64, 0, 0))
        }
        // Global unicast: RFC 4291.
        IpAddr::V6(address) => {
            let first = Ipv6Addr::segments(&address)[0];
            first & 0xe000 == 0x2000
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn names_and_addresses_of_this_machine_are_left_out() {
        for (name, wanted) in [
            ("registry.npmjs.org", true),
            ("localhost", false),
            ("a", false),
            ("a.localhost", false),
            ("printer.local", false),
            ("1.0.0.127.in-addr.arpa", false),
        ] {
            assert_eq!(is_beyond(name), wanted, "{name}");
        }
        for (address, wanted) in [
            ("192.0.2.1", true),
            ("8.8.8.8", true),
            ("2606:4700::1", true),
            ("127.0.0.1", false),
            ("10.1.2.3", false),
            ("172.16.0.1", false),
            ("192.168.0.1", false),
            ("169.254.169.254", false),
            ("100.64.0.1", false),
            ("0.0.0.0", false),
            ("255.255.255.255", false),
            ("224.0.0.1", false),
            ("::1", false),
            ("::", false),
            ("fe80::1", false),
            ("fd00::1", false),
            ("ff02::1", false),
        ] {
            assert_eq!(is_public(address.parse().unwrap()), wanted, "{address}");
        }
    }

    #[test]
    fn few_attempts_are_kept() {
        let mut attempts = Attempts { names: None, found: Vec::new() };
        for number in (0..MAX_ATTEMPTS * 2).chain(0..3) {
            attempts.note(Attempt::Name(format!("a{number}.example")));
        }
        assert_eq!(attempts.into_found().len(), MAX_ATTEMPTS);
    }
}
