// SPDX-License-Identifier: GPL-2.0-or-later
//! What a request and an answer begin with: 16 bytes, which say how long both are and which it is.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0–1 | the letters `sT` |
//! | 2 | version, 1 |
//! | 3 | kind |
//! | 4–7 | bytes of the request, header and all |
//! | 8–11 | bytes of the answer, header and all |
//! | 12–15 | number of the request in its connection |
//!
//! Numbers are big-endian. A stream has one request of the header alone, then what is sent until it
//! ends; its answer is followed by four 64-bit numbers, see [`Total`]. A stream from the server is asked
//! for by a header alone, goes on until the client ends its side, and is followed by such an answer.

/// Bytes of a header, and so the least of a request and of an answer.
pub const LEN: usize = 16;
/// Bytes of a request or an answer, at most.
pub const MOST: u32 = 1 << 24;
/// Bytes of what a stream is answered with.
pub const STREAM_ANSWER: usize = LEN + TOTAL;
const TOTAL: usize = 4 * 8;
const MAGIC: [u8; 2] = *b"sT";
const VERSION: u8 = 1;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An answer; the connection stays.
    Keep,
    /// An answer; then the server closes the connection.
    Close,
    /// To take all that comes until the end, and to tell how much it was.
    Stream,
    /// It is the answer.
    Answer,
    /// To send until the client ends its side, and then to tell how much it was.
    Source,
}

/// The first bytes of a request or of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What is asked for.
    pub kind: Kind,
    /// Bytes of the request, this header among them.
    pub request: u32,
    /// Bytes of the answer, its header among them.
    pub answer: u32,
    /// Which request of its connection it is.
    pub number: u32,
}

impl Head {
    /// As it travels.
    #[must_use]
    pub fn bytes(&self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = match self.kind {
            Kind::Keep => 1,
            Kind::Close => 2,
            Kind::Stream => 3,
            Kind::Answer => 4,
            Kind::Source => 5,
        };
        for (at, number) in [(4, self.request), (8, self.answer), (12, self.number)] {
            bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Take one apart; `None` if it is none, or says sizes that nothing has.
    #[must_use]
    pub fn read(bytes: &[u8; LEN]) -> Option<Self> {
        let kind = match bytes[3] {
            1 => Kind::Keep,
            2 => Kind::Close,
            3 => Kind::Stream,
            4 => Kind::Answer,
            5 => Kind::Source,
            _ => return None,
        };
        let number = |at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let head = Self { kind, request: number(4), answer: number(8), number: number(12) };
        let least = u32::try_from(LEN).unwrap_or(MOST);
        let sizes = [head.request, head.answer];
        let sound = sizes.iter().all(|size| (least..=MOST).contains(size));
        (bytes[..2] == MAGIC && bytes[2] == VERSION && sound).then_some(head)
    }

    /// The header of its answer.
    #[must_use]
    pub fn answered(&self) -> Self {
        Self { kind: Kind::Answer, ..*self }
    }
}

/// What a server tells of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// Bytes of it, without headers.
    pub bytes: u64,
    /// From the first of them to the last, nanoseconds.
    pub ns: u64,
    /// Segments that the server sent again.
    pub retransmitted: u64,
    /// The server's smoothed round-trip time, nanoseconds.
    pub rtt_ns: u64,
}

impl Total {
    /// As it travels.
    #[must_use]
    pub fn bytes(&self) -> [u8; TOTAL] {
        let mut bytes = [0; TOTAL];
        let numbers = [self.bytes, self.ns, self.retransmitted, self.rtt_ns];
        for (place, number) in bytes.chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Take one apart.
    #[must_use]
    pub fn read(bytes: &[u8; TOTAL]) -> Self {
        let number = |at: usize| {
            let mut part = [0; 8];
            part.copy_from_slice(&bytes[at * 8..at * 8 + 8]);
            u64::from_be_bytes(part)
        };
        Self { bytes: number(0), ns: number(1), retransmitted: number(2), rtt_ns: number(3) }
    }
}

/// A message that comes in pieces of any size: a header, and as much as it says.
#[derive(Clone, Debug, Default)]
pub struct Incoming {
    head: [u8; LEN],
    got: usize,
    /// What is still to come behind the header, once it is there.
    left: u64,
}

/// What a piece of a message led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// More is to come.
    Partly,
    /// It is whole, and so many bytes of the piece are behind it.
    Whole(Head, usize),
    /// It is no message of ours.
    Foreign,
}

impl Incoming {
    /// Whether nothing of it has come.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.got == 0
    }

    /// Take a piece; `size` says how long a message is by its header.
    pub fn feed(&mut self, mut piece: &[u8], size: fn(&Head) -> u32) -> Progress {
        if self.got < LEN {
            let some = piece.len().min(LEN - self.got);
            self.head[self.got..self.got + some].copy_from_slice(&piece[..some]);
            self.got += some;
            piece = &piece[some..];
            if self.got < LEN {
                return Progress::Partly;
            }
            let Some(head) = Head::read(&self.head) else { return Progress::Foreign };
            self.left = u64::from(size(&head)).saturating_sub(LEN as u64);
        }
        let some = usize::try_from(self.left).unwrap_or(usize::MAX).min(piece.len());
        self.left -= some as u64;
        if self.left > 0 {
            return Progress::Partly;
        }
        let Some(head) = Head::read(&self.head) else { return Progress::Foreign };
        *self = Self::default();
        Progress::Whole(head, piece.len() - some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kinds() -> impl Strategy<Value = Kind> {
        let all = vec![Kind::Keep, Kind::Close, Kind::Stream, Kind::Answer, Kind::Source];
        prop::sample::select(all)
    }

    prop_compose! {
        fn heads()(kind in kinds(), request in 16..=MOST, answer in 16..=MOST, number: u32) -> Head {
            Head { kind, request, answer, number }
        }
    }

    #[test]
    fn sizes_that_nothing_has_are_refused() {
        let head = Head { kind: Kind::Keep, request: 16, answer: 16, number: 0 };
        assert_eq!(Head::read(&head.bytes()), Some(head));
        for (request, answer) in [(15, 16), (16, 15), (MOST + 1, 16), (16, u32::MAX)] {
            assert_eq!(Head::read(&Head { request, answer, ..head }.bytes()), None);
        }
    }

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(head in heads()) {
            prop_assert_eq!(Head::read(&head.bytes()), Some(head));
        }

        #[test]
        fn a_total_is_read_as_it_was_written(
            bytes: u64, ns: u64, retransmitted: u64, rtt_ns: u64
        ) {
            let total = Total { bytes, ns, retransmitted, rtt_ns };
            prop_assert_eq!(Total::read(&total.bytes()), total);
        }

        #[test]
        fn any_bytes_are_a_head_or_none(bytes: [u8; LEN], known: bool) {
            let mut bytes = bytes;
            if known {
                bytes[..4].copy_from_slice(b"sT\x01\x01");
            }
            if let Some(head) = Head::read(&bytes) {
                prop_assert_eq!(head.bytes(), bytes);
            }
        }

        /// Messages come whole however they are cut, and nothing of the next one is taken.
        #[test]
        fn messages_come_in_any_pieces(
            number: u32,
            requests in prop::collection::vec(16_u32..300, 1..6),
            cuts in prop::collection::vec(1_usize..200, 1..30),
        ) {
            let mut wire = Vec::new();
            for &request in &requests {
                let head = Head { kind: Kind::Keep, request, answer: 16, number };
                wire.extend(head.bytes());
                wire.resize(wire.len() + request as usize - LEN, 0);
            }
            let mut incoming = Incoming::default();
            let (mut at, mut found) = (0, Vec::new());
            for cut in cuts.iter().cycle() {
                let mut piece = &wire[at..wire.len().min(at + cut)];
                at += piece.len();
                while !piece.is_empty() {
                    match incoming.feed(piece, |head| head.request) {
                        Progress::Partly => break,
                        Progress::Whole(head, behind) => {
                            found.push(head.request);
                            piece = &piece[piece.len() - behind..];
                        }
                        Progress::Foreign => prop_assert!(false, "foreign"),
                    }
                }
                if at == wire.len() {
                    break;
                }
            }
            prop_assert_eq!(found, requests);
            prop_assert!(incoming.is_empty());
        }

        #[test]
        fn any_pieces_are_safe(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..10)) {
            let mut incoming = Incoming::default();
            for piece in pieces {
                if let Progress::Whole(_, behind) = incoming.feed(&piece, |head| head.answer) {
                    prop_assert!(behind <= piece.len());
                }
            }
        }
    }
}
