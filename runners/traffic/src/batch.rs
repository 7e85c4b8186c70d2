// SPDX-License-Identifier: GPL-2.0-or-later
//! Many datagrams by one call (`recvmmsg`), each with its source, its time and the socket's drops.
//!
//! Of a payload only the first [`KEPT`] bytes are copied: they hold any header. nix has the call, but
//! leaves the size of each control buffer as the datagram before has shrunk it.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use crate::clock::NS_PER_SEC;

/// Most datagrams of a call.
pub const MOST: usize = COUNT as usize;
/// Bytes that are kept of a payload.
pub const KEPT: usize = 64;
/// A control message of a time, and one of a count, have 56 bytes.
const CONTROL: usize = 64;
/// As large as the address of an IPv6 socket.
const ADDRESS: libc::socklen_t = 28;
const COUNT: libc::c_uint = 64;

/// As control messages are aligned.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Control([u8; CONTROL]);

/// As the fields of an address are aligned.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
struct Address([u8; ADDRESS as usize]);

/// What is known of one datagram but its payload.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    bytes: usize,
    source: Option<SocketAddr>,
    stamp_ns: Option<u64>,
    drops: Option<u32>,
}

/// One datagram.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The beginning of its payload.
    pub payload: &'a [u8],
    /// Bytes of the whole payload.
    pub bytes: usize,
    /// Who sent it.
    pub source: Option<SocketAddr>,
    /// When it entered the network stack, nanoseconds of `CLOCK_REALTIME` (`SO_TIMESTAMPNS`).
    pub stamp_ns: Option<u64>,
    /// Datagrams that the socket had dropped before it, if any (`SO_RXQ_OVFL`).
    pub drops: Option<u32>,
}

/// Datagrams of the last call.
pub struct Batch {
    payloads: Box<[[u8; KEPT]; MOST]>,
    controls: Box<[Control; MOST]>,
    addresses: Box<[Address; MOST]>,
    known: Box<[Known; MOST]>,
}

impl Default for Batch {
    fn default() -> Self {
        Self {
            payloads: Box::new([[0; KEPT]; MOST]),
            controls: Box::new([Control([0; CONTROL]); MOST]),
            addresses: Box::new([Address([0; ADDRESS as usize]); MOST]),
            known: Box::new([Known::default(); MOST]),
        }
    }
}

impl Batch {
    /// Wait for a datagram, as long as the socket's timeout says, and take what else is there.
    ///
    /// # Errors
    /// What the kernel said. A timeout and a signal are none: they bring no datagram.
    pub fn receive<'b>(
        &'b mut self,
        socket: &UdpSocket,
    ) -> io::Result<impl Iterator<Item = Datagram<'b>> + use<'b>> {
        let count = match self.call(socket) {
            Ok(count) => count,
            Err(error) => match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR) => 0,
                _ => return Err(error),
            },
        };
        let each = self.known.iter().zip(self.payloads.iter()).take(count);
        Ok(each.map(|(known, payload)| Datagram {
            payload: &payload[..known.bytes.min(KEPT)],
            bytes: known.bytes,
            source: known.source,
            stamp_ns: known.stamp_ns,
            drops: known.drops,
        }))
    }

    /// Fill the buffers; says how many datagrams came.
    fn call(&mut self, socket: &UdpSocket) -> io::Result<usize> {
        let mut parts: [libc::iovec; MOST] = std::array::from_fn(|at| libc::iovec {
            iov_base: self.payloads[at].as_mut_ptr().cast(),
            iov_len: KEPT,
        });
        let mut headers: [libc::mmsghdr; MOST] = std::array::from_fn(|at| {
            // SAFETY: plain integers and pointers, for which zeros are valid; some C libraries have
            // padding in it that cannot be named.
            let mut header: libc::mmsghdr = unsafe { std::mem::zeroed() };
            header.msg_hdr.msg_name = (&raw mut self.addresses[at].0).cast();
            header.msg_hdr.msg_namelen = ADDRESS;
            header.msg_hdr.msg_iov = &raw mut parts[at];
            header.msg_hdr.msg_iovlen = 1;
            header.msg_hdr.msg_control = (&raw mut self.controls[at].0).cast();
            header.msg_hdr.msg_controllen = CONTROL as _;
            header
        });
        // The length is that of the whole payload by MSG_TRUNC.
        let flags = libc::MSG_WAITFORONE | libc::MSG_TRUNC;
        // SAFETY: the descriptor is open; there are MOST headers, and each has the pointers and
        // sizes of buffers of its own in `self` and `parts`, which outlive the call and which
        // nothing else uses meanwhile.
        let count = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), headers.as_mut_ptr(), COUNT, flags, ptr::null_mut())
        };
        let count = usize::try_from(count).map_err(|_| io::Error::last_os_error())?;
        for (at, header) in headers.iter().take(count).enumerate() {
            let size = header.msg_hdr.msg_namelen as usize;
            let mut known = Known {
                bytes: header.msg_len as usize,
                source: self.addresses[at].0.get(..size).and_then(source),
                ..Known::default()
            };
            // SAFETY: the kernel has filled in `header`, and its buffers are still there.
            unsafe { known.read_control(&header.msg_hdr) };
            self.known[at] = known;
        }
        Ok(count)
    }
}

impl Known {
    /// Take in what came along with a datagram.
    ///
    /// # Safety
    /// The control buffer of `header` is as the kernel has filled it, with its length.
    unsafe fn read_control(&mut self, header: &libc::msghdr) {
        // SAFETY: by the caller's word; null if there is no message.
        let mut message = unsafe { libc::CMSG_FIRSTHDR(header) };
        while !message.is_null() {
            // SAFETY: not null, so it is a whole header in the control buffer, which is aligned for
            // it.
            let (level, kind) = unsafe { ((*message).cmsg_level, (*message).cmsg_type) };
            // SAFETY: as before; the data follows the header.
            let data = unsafe { libc::CMSG_DATA(message) };
            match (level, kind) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    // SAFETY: a message of this kind has a timespec, and the buffer has room for
                    // both kinds, so that it is not cut.
                    let stamp = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                    self.stamp_ns = nanoseconds(stamp);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    // SAFETY: as before; a message of this kind has a u32.
                    self.drops = Some(unsafe { data.cast::<u32>().read_unaligned() });
                }
                _ => (),
            }
            // SAFETY: by the caller's word, and `message` is one of this buffer.
            message = unsafe { libc::CMSG_NXTHDR(header, message) };
        }
    }
}

/// A time after 1970; the kernel gives 0 if it has none.
pub(crate) fn nanoseconds(stamp: libc::timespec) -> Option<u64> {
    let seconds = u64::try_from(stamp.tv_sec).ok()?;
    let rest = u64::try_from(stamp.tv_nsec).ok()?;
    Some(seconds.checked_mul(NS_PER_SEC)?.checked_add(rest)?).filter(|&stamp| stamp > 0)
}

/// The source in a `sockaddr_in` or `sockaddr_in6`.
fn source(address: &[u8]) -> Option<SocketAddr> {
    let family = i32::from(u16::from_ne_bytes(part(address, 0)?));
    let port = u16::from_be_bytes(part(address, 2)?);
    let ip = match family {
        libc::AF_INET => IpAddr::from(part::<4>(address, 4)?),
        libc::AF_INET6 => {
            let scope = u32::from_ne_bytes(part(address, 24)?);
            let ip = part::<16>(address, 8)?.into();
            return Some(std::net::SocketAddrV6::new(ip, port, 0, scope).into());
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::realtime_ns;
    use crate::socket::open_receiver;

    /// A sender and a receiver, whose buffer holds all of a test but for one about drops.
    fn pair(bind: &str) -> (UdpSocket, UdpSocket) {
        let receiver = open_receiver(bind.parse().unwrap(), Some(128 << 10)).unwrap();
        let to = receiver.local_addr().unwrap();
        let sender = UdpSocket::bind((to.ip(), 0)).unwrap();
        sender.connect(to).unwrap();
        (sender, receiver)
    }

    #[test]
    fn each_datagram_is_told_as_it_is() {
        for bind in ["127.0.0.1:0", "[::1]:0"] {
            let (sender, receiver) = pair(bind);
            let before = realtime_ns();
            let payloads = [vec![7; 3], vec![], vec![8; KEPT], vec![9; 40_000]];
            for payload in &payloads {
                sender.send(payload).unwrap();
            }
            let mut batch = Batch::default();
            let got = batch.receive(&receiver).unwrap().collect::<Vec<_>>();
            let after = realtime_ns();
            assert_eq!(got.len(), payloads.len());
            for (datagram, payload) in got.iter().zip(&payloads) {
                assert_eq!(datagram.payload, &payload[..payload.len().min(KEPT)]);
                assert_eq!(datagram.bytes, payload.len());
                assert_eq!(datagram.source, Some(sender.local_addr().unwrap()));
                assert_eq!(datagram.drops, None);
                let stamp = datagram.stamp_ns.unwrap();
                // The clock may be slewed or set a little meanwhile.
                assert!(before - 1_000_000 < stamp && stamp < after + 1_000_000);
            }
        }
    }

    #[test]
    fn a_call_takes_what_is_there_and_waits_no_longer_than_the_socket() {
        let (sender, receiver) = pair("127.0.0.1:0");
        for _ in 0..MOST + 5 {
            sender.send(b"x").unwrap();
        }
        let mut batch = Batch::default();
        for expected in [MOST, 5, 0] {
            assert_eq!(batch.receive(&receiver).unwrap().count(), expected);
        }
    }

    #[test]
    fn drops_are_seen_after_datagrams_without_any() {
        let (sender, receiver) = pair("127.0.0.1:0");
        let mut batch = Batch::default();
        // Without drops the control buffer is filled less.
        for _ in 0..MOST {
            sender.send(b"x").unwrap();
        }
        assert_eq!(batch.receive(&receiver).unwrap().count(), MOST);
        for _ in 0..20_000 {
            sender.send(&[0; 1000]).unwrap();
        }
        let mut seen = None;
        loop {
            let got = batch.receive(&receiver).unwrap().collect::<Vec<_>>();
            let Some(last) = got.last() else { break };
            assert!(got.iter().all(|datagram| datagram.stamp_ns.is_some()));
            seen = last.drops;
        }
        // All drops were before anything was read: those that wait carry what was so when they came.
        sender.send(b"last").unwrap();
        let last = batch.receive(&receiver).unwrap().last().unwrap().drops;
        assert!(last.unwrap() > 10_000 && seen <= last, "{seen:?} {last:?}");
    }
}
