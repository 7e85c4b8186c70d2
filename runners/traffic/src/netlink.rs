// SPDX-License-Identifier: GPL-2.0-or-later
//! Questions to the kernel by rtnetlink, and its answers. What they mean is for who asks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket,
};

/// Of the kernel's header netlink.h.
const HEADER: usize = 16;
const ATTRIBUTE: usize = 4;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const NLM_F_REQUEST: u16 = 1;
const NLM_F_DUMP: u16 = 0x300;
/// One device is told in so many bytes, even with hundreds of queues.
const ANSWER: usize = 64 << 10;

/// A message of the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// What it tells of, such as `RTM_NEWLINK`.
    pub kind: u16,
    /// What stands behind its header.
    pub body: Vec<u8>,
}

/// Ask for one thing.
///
/// # Errors
/// What the kernel said.
pub fn ask(kind: u16, body: &[u8]) -> io::Result<Message> {
    let socket = asked(kind, NLM_F_REQUEST, body)?;
    let (found, _) = messages(&received(&socket)?)?;
    found.into_iter().next().ok_or_else(unknown)
}

/// Ask for all things of a kind.
///
/// # Errors
/// What the kernel said.
pub fn list(kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
    let socket = asked(kind, NLM_F_REQUEST | NLM_F_DUMP, body)?;
    let mut all = Vec::new();
    loop {
        let (found, done) = messages(&received(&socket)?)?;
        all.extend(found);
        if done {
            return Ok(all);
        }
    }
}

fn asked(kind: u16, flags: u16, body: &[u8]) -> io::Result<OwnedFd> {
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )?;
    let size = u32::try_from(HEADER + body.len()).expect("a short request");
    let mut request = Vec::new();
    request.extend(size.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(flags.to_ne_bytes());
    // Sequence and port: there is one question on the socket.
    request.extend([0; 8]);
    request.extend(body);
    send(socket.as_raw_fd(), &request, MsgFlags::empty())?;
    Ok(socket)
}

fn received(socket: &OwnedFd) -> io::Result<Vec<u8>> {
    let mut answer = vec![0; ANSWER];
    let size = recv(socket.as_raw_fd(), &mut answer, MsgFlags::empty())?;
    answer.truncate(size);
    Ok(answer)
}

/// Take an answer apart; says whether it was the last one.
fn messages(mut rest: &[u8]) -> io::Result<(Vec<Message>, bool)> {
    let mut found = Vec::new();
    while !rest.is_empty() {
        let size = u32::from_ne_bytes(part(rest, 0).ok_or_else(unknown)?);
        let size = usize::try_from(size).map_err(|_| unknown())?;
        let kind = u16::from_ne_bytes(part(rest, 4).ok_or_else(unknown)?);
        let body = rest.get(HEADER..size).ok_or_else(unknown)?;
        match kind {
            NLMSG_ERROR => {
                let error = i32::from_ne_bytes(part(body, 0).ok_or_else(unknown)?);
                return Err(io::Error::from_raw_os_error(error.saturating_neg()));
            }
            NLMSG_DONE => return Ok((found, true)),
            _ => found.push(Message { kind, body: body.to_owned() }),
        }
        rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok((found, false))
}

/// Add an attribute to a request.
///
/// # Errors
/// `EMSGSIZE` if it is too long.
pub fn put(request: &mut Vec<u8>, kind: u16, value: &[u8]) -> io::Result<()> {
    let size = u16::try_from(ATTRIBUTE + value.len()).map_err(|_| Errno::EMSGSIZE)?;
    request.extend(size.to_ne_bytes());
    request.extend(kind.to_ne_bytes());
    request.extend(value);
    request.resize(request.len().next_multiple_of(4), 0);
    Ok(())
}

/// Take the attributes that stand behind the first `head` bytes of a message.
///
/// # Errors
/// If they are none.
pub fn attributes(body: &[u8], head: usize) -> io::Result<Vec<(u16, &[u8])>> {
    let mut rest = body.get(head..).ok_or_else(unknown)?;
    let mut found = Vec::new();
    while let (Some(size), Some(kind)) = (part(rest, 0), part(rest, 2)) {
        let size = usize::from(u16::from_ne_bytes(size));
        let value = rest.get(ATTRIBUTE..size).ok_or_else(unknown)?;
        found.push((u16::from_ne_bytes(kind), value));
        rest = rest.get(size.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(found)
}

/// Take some bytes of many, if they are there.
#[must_use]
pub fn part<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

/// What is said of an answer that is none.
#[must_use]
pub fn unknown() -> io::Error {
    io::Error::other("rtnetlink: an answer that is none")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut made = Vec::new();
        made.extend(u32::try_from(HEADER + body.len()).unwrap().to_ne_bytes());
        made.extend(kind.to_ne_bytes());
        made.resize(HEADER, 0);
        made.extend(body);
        made.resize(made.len().next_multiple_of(4), 0);
        made
    }

    #[test]
    fn an_answer_has_messages_until_it_is_done() {
        let mut answer = message(16, b"one");
        answer.extend(message(16, b"second"));
        let [one, second] =
            [b"one".to_vec(), b"second".to_vec()].map(|body| Message { kind: 16, body });
        assert_eq!(messages(&answer).unwrap(), (vec![one.clone(), second], false));
        let mut last = message(16, b"one");
        last.extend(message(NLMSG_DONE, &[0; 4]));
        assert_eq!(messages(&last).unwrap(), (vec![one], true));
        let error = messages(&message(NLMSG_ERROR, &(-libc::ENODEV).to_ne_bytes())).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
    }

    proptest! {
        #[test]
        fn any_answer_is_safe(answer: Vec<u8>, head in 0..40_usize) {
            let _either = messages(&answer);
            let _either = attributes(&answer, head);
        }

        #[test]
        fn attributes_are_those_that_were_put(
            values in prop::collection::vec((any::<u16>(), any::<Vec<u8>>()), 0..5)
        ) {
            let mut request = vec![7; 8];
            for (kind, value) in &values {
                put(&mut request, *kind, value).unwrap();
            }
            let found = attributes(&request, 8).unwrap();
            let found: Vec<_> = found.iter().map(|(kind, value)| (*kind, value.to_vec())).collect();
            prop_assert_eq!(found, values);
        }
    }
}
