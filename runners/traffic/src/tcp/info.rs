// SPDX-License-Identifier: GPL-2.0-or-later
//! What the kernel knows of a connection (`TCP_INFO`).
//!
//! It is read by its places, as the kernel's `linux/tcp.h` has them: a C library may have an older
//! structure. A kernel that is older than a figure gives a shorter one.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

/// As large as the structure may become, bytes.
const ROOM: usize = 512;
const RTT: usize = 68;
const TOTAL_RETRANS: usize = 100;
const SEGS_OUT: usize = 136;
const MIN_RTT: usize = 148;
const BYTES_RETRANS: usize = 208;
const NS_PER_US: u64 = 1000;

/// Some of its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The kernel's smoothed round-trip time, nanoseconds; 0 before the first one is known.
    pub rtt_ns: u64,
    /// The shortest round trip, nanoseconds; `None` of a kernel before 4.6 and where none is known.
    pub min_rtt_ns: Option<u64>,
    /// Segments that were sent again.
    pub retransmitted: u64,
    /// Bytes that were sent again; `None` of a kernel before 4.19.
    pub retransmitted_bytes: Option<u64>,
    /// Segments that were sent, again or not.
    pub segments: Option<u64>,
}

/// Ask for them.
///
/// # Errors
/// What the kernel said.
pub fn of(socket: &TcpStream) -> io::Result<Info> {
    let mut bytes = [0_u8; ROOM];
    let mut size = libc::socklen_t::try_from(ROOM).expect("it is small");
    // SAFETY: the descriptor is open, and the pointer and size describe `bytes`, which outlives the
    // call; the kernel writes at most `size` bytes of plain integers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            bytes.as_mut_ptr().cast(),
            &raw mut size,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(read(&bytes[..(size as usize).min(ROOM)]))
}

fn read(bytes: &[u8]) -> Info {
    let short = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?).into());
    let long = |at: usize| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    // The kernel has no least round trip yet: all bits are set.
    let known = |us: &u64| *us != u64::from(u32::MAX);
    Info {
        rtt_ns: short(RTT).unwrap_or(0) * NS_PER_US,
        min_rtt_ns: short(MIN_RTT).filter(known).map(|us: u64| us * NS_PER_US),
        retransmitted: short(TOTAL_RETRANS).unwrap_or(0),
        retransmitted_bytes: long(BYTES_RETRANS),
        segments: short(SEGS_OUT),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_kernel_tells_of_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut other = listener.accept().unwrap().0;
        socket.write_all(b"some").unwrap();
        other.read_exact(&mut [0; 4]).unwrap();
        other.write_all(b"more").unwrap();
        socket.read_exact(&mut [0; 4]).unwrap();
        let info = of(&socket).unwrap();
        // Below a second over loopback, and a handshake and data are at least three segments.
        assert!((1..1_000_000_000).contains(&info.rtt_ns), "{info:?}");
        assert!(info.min_rtt_ns.is_none_or(|least| least < 1_000_000_000), "{info:?}");
        assert!(info.segments.is_none_or(|count| count >= 3), "{info:?}");
    }

    #[test]
    fn an_older_kernel_tells_less() {
        let mut bytes = [0_u8; 104];
        bytes[RTT..RTT + 4].copy_from_slice(&250_u32.to_ne_bytes());
        bytes[TOTAL_RETRANS..].copy_from_slice(&3_u32.to_ne_bytes());
        let expected = Info { rtt_ns: 250_000, retransmitted: 3, ..Info::default() };
        assert_eq!(read(&bytes), expected);
        assert_eq!(read(&[]), Info::default());
    }

    proptest! {
        #[test]
        fn any_size_is_safe(bytes: Vec<u8>) {
            let _any = read(&bytes);
        }
    }
}
