// SPDX-License-Identifier: GPL-2.0-or-later
//! The file that has a record of each datagram: its format, and a reader. [`crate::recorder`] writes.
//!
//! All numbers are little-endian. A file is a header, blocks of records, and a last block without
//! any. results-schema/packets.md has the same for those who write a reader of their own.
//!
//! | offset | bytes | field of the file's header, 128 bytes                                     |
//! | ------ | ----- | ------------------------------------------------------------------------- |
//! | 0      | 8     | magic, `skbpkts\n`                                                        |
//! | 8      | 2     | version, 1                                                                |
//! | 10     | 2     | bytes of this header, 128                                                 |
//! | 12     | 2     | bytes of a block's header, 32                                             |
//! | 14     | 2     | bytes of a record, 32                                                     |
//! | 16     | 4     | most records in a block, 4096                                             |
//! | 20     | 4     | bits 0: the transmission is known; 1: one clock; 2: a round trip          |
//! | 24     | 8     | when receiving began, nanoseconds of the receiver's clock                 |
//! | 32     | 2     | the transmission                                                          |
//! | 34     | 30    | zero                                                                      |
//! | 64     | 16    | the sender's clock, e.g. `CLOCK_REALTIME`, zeros after it; `unknown`      |
//! | 80     | 16    | the receiver's clock                                                      |
//! | 96     | 16    | who stamped the packets that came: `kernel`, in software                  |
//! | 112    | 12    | zero                                                                      |
//! | 124    | 4     | CRC-32 of the 124 bytes before                                            |
//!
//! | offset | bytes | field of a block's header, 32 bytes                                       |
//! | ------ | ----- | ------------------------------------------------------------------------- |
//! | 0      | 8     | magic, `pktblock`                                                         |
//! | 8      | 8     | number of its first datagram, of all received, from 0                     |
//! | 16     | 4     | records that follow, 0 to 4096                                            |
//! | 20     | 4     | CRC-32 of the records                                                     |
//! | 24     | 4     | zero                                                                      |
//! | 28     | 4     | CRC-32 of the 28 bytes before                                             |
//!
//! | offset | bytes | field of a record, 32 bytes                                               |
//! | ------ | ----- | ------------------------------------------------------------------------- |
//! | 0      | 8     | sequence, in full                                                         |
//! | 8      | 8     | when it was sent, nanoseconds of the sender's clock, in full              |
//! | 16     | 8     | when it came, nanoseconds of the receiver's clock                         |
//! | 24     | 2     | flow: number of its source, in the order in which sources came            |
//! | 26     | 2     | UDP payload, bytes                                                        |
//! | 28     | 4     | [`flags`]                                                                 |
//!
//! Datagrams that were received and not kept are gaps between the numbers of two blocks. The last
//! block has no records, and as its number how many datagrams were received; a file without it was
//! cut off. Whatever byte is wrong, no record of its block is read: the CRC-32 is that of zlib. All
//! parts are a multiple of 32 bytes long, so the next block is found at such an offset.

use std::io::{self, Read};

use crate::header::Clock;

/// Bytes of the file's header.
pub const FILE_HEADER: usize = 128;
/// Bytes of a block's header.
pub const BLOCK_HEADER: usize = 32;
/// Bytes of a record.
pub const RECORD: usize = 32;
/// Most records in a block.
pub const MOST_RECORDS: usize = 4096;

const VERSION: u16 = 1;
const FILE_MAGIC: [u8; 8] = *b"skbpkts\n";
const BLOCK_MAGIC: [u8; 8] = *b"pktblock";
const NAME: usize = 16;
const TRANSMISSION_KNOWN: u32 = 1;
const ONE_CLOCK: u32 = 1 << 1;
const ROUND_TRIP: u32 = 1 << 2;
/// All parts begin at a multiple of it.
const STEP: usize = 32;
const MOST_BLOCK: usize = BLOCK_HEADER + (MOST_RECORDS * RECORD);

/// What a record's flags say. Without any of the first six the packet is new, and of this
/// transmission.
pub mod flags {
    /// Seen before.
    pub const DUPLICATE: u32 = 1 << 0;
    /// Too far behind to be told new from repeated.
    pub const TOO_OLD: u32 = 1 << 1;
    /// Its number is at or above the number of packets expected.
    pub const BEYOND: u32 = 1 << 2;
    /// Of another transmission; its sequence and time are of the same clocks all the same.
    pub const OTHER_TRANSMISSION: u32 = 1 << 3;
    /// No header that is known; sequence, time and flow are 0.
    pub const FOREIGN: u32 = 1 << 4;
    /// New, and came after a higher number (RFC 4737), over all flows.
    pub const REORDERED: u32 = 1 << 8;
    /// The header is pktgen's: its time is in whole microseconds, rounded down.
    pub const PKTGEN: u32 = 1 << 9;
    /// The kernel gave no stamp: the time is when the receiver had read it.
    pub const NOT_BY_KERNEL: u32 = 1 << 10;
    /// Where the number of the sender's clock is: two bits.
    pub const CLOCK_SHIFT: u32 = 16;
    /// These bits: 0 `CLOCK_REALTIME`, 1 `CLOCK_TAI`, 2 `CLOCK_MONOTONIC`.
    pub const CLOCK: u32 = 3 << CLOCK_SHIFT;
    /// With one of these a packet counts in no figure of time.
    pub const NOT_COUNTED: u32 = DUPLICATE | TOO_OLD | BEYOND | OTHER_TRANSMISSION | FOREIGN;
}

/// One datagram that was received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Place in the transmission, from 0.
    pub sequence: u64,
    /// When it was sent, nanoseconds of the sender's clock.
    pub sent_ns: u64,
    /// When it came, nanoseconds of the receiver's clock.
    pub received_ns: u64,
    /// The number of its source.
    pub flow: u16,
    /// UDP payload, bytes.
    pub payload_bytes: u16,
    /// What it is, see [`flags`].
    pub flags: u32,
}

impl Record {
    /// As it is in the file.
    #[must_use]
    pub fn to_bytes(self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[0..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sent_ns.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.received_ns.to_le_bytes());
        bytes[24..26].copy_from_slice(&self.flow.to_le_bytes());
        bytes[26..28].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.flags.to_le_bytes());
        bytes
    }

    /// As it was written.
    #[inline]
    #[must_use]
    pub fn from_bytes(bytes: &[u8; RECORD]) -> Self {
        Self {
            sequence: u64::from_le_bytes(part(bytes, 0)),
            sent_ns: u64::from_le_bytes(part(bytes, 8)),
            received_ns: u64::from_le_bytes(part(bytes, 16)),
            flow: u16::from_le_bytes(part(bytes, 24)),
            payload_bytes: u16::from_le_bytes(part(bytes, 26)),
            flags: u32::from_le_bytes(part(bytes, 28)),
        }
    }
}

/// What a file says of all its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileHeader {
    /// When receiving began, nanoseconds of the receiver's clock.
    pub begun_ns: u64,
    /// Which transmission was to be counted; `None` if none of it came before the first block.
    pub transmission: Option<u16>,
    /// The sender's clock, of the first packet; each record has its own.
    pub sender_clock: Option<Clock>,
    /// The receiver's clock; `None` in imported files whose source does not name it.
    pub receiver_clock: Option<Clock>,
    /// Sender and receiver have one clock, for sure.
    pub one_clock: bool,
    /// What lies between both times is a round trip.
    pub round_trip: bool,
}

impl Default for FileHeader {
    /// Of a receiver that has seen nothing yet.
    fn default() -> Self {
        Self {
            begun_ns: 0,
            transmission: None,
            sender_clock: None,
            receiver_clock: Some(Clock::Realtime),
            one_clock: false,
            round_trip: false,
        }
    }
}

/// Who stamps the packets that come.
pub const STAMPS: &str = "kernel";
/// Of an imported file: who captured, or a generator that stamps what it gets back.
const OTHER_STAMPS: [&str; 2] = ["capture", "tester"];
const UNKNOWN: &str = "unknown";

/// The name that the kernel's interface has for a clock.
#[must_use]
pub fn clock_name(clock: Clock) -> &'static str {
    match clock {
        Clock::Realtime => "CLOCK_REALTIME",
        Clock::Tai => "CLOCK_TAI",
        Clock::Monotonic => "CLOCK_MONOTONIC",
    }
}

impl FileHeader {
    /// As it is in the file.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; FILE_HEADER] {
        let mut bytes = [0; FILE_HEADER];
        bytes[0..8].copy_from_slice(&FILE_MAGIC);
        for (at, size) in [(8, VERSION), (10, small(FILE_HEADER)), (12, small(BLOCK_HEADER))] {
            bytes[at..at + 2].copy_from_slice(&size.to_le_bytes());
        }
        bytes[14..16].copy_from_slice(&small(RECORD).to_le_bytes());
        bytes[16..20].copy_from_slice(&u32::from(small(MOST_RECORDS)).to_le_bytes());
        let known = self.transmission.map_or(0, |_| TRANSMISSION_KNOWN)
            | if self.one_clock { ONE_CLOCK } else { 0 }
            | if self.round_trip { ROUND_TRIP } else { 0 };
        bytes[20..24].copy_from_slice(&known.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.begun_ns.to_le_bytes());
        bytes[32..34].copy_from_slice(&self.transmission.unwrap_or(0).to_le_bytes());
        let sender = self.sender_clock.map_or(UNKNOWN, clock_name);
        let receiver = self.receiver_clock.map_or(UNKNOWN, clock_name);
        for (at, name) in [(64, sender), (80, receiver), (96, STAMPS)] {
            bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
        }
        seal(&mut bytes);
        bytes
    }

    /// As it was written.
    ///
    /// # Errors
    /// What is not as in a file of this version.
    pub fn from_bytes(bytes: &[u8; FILE_HEADER]) -> Result<Self, &'static str> {
        if bytes[..8] != FILE_MAGIC {
            return Err("it does not begin as a file of records does");
        }
        if u16::from_le_bytes(part(bytes, 8)) != VERSION {
            return Err("its version is not 1");
        }
        if !is_sealed(bytes) {
            return Err("its header is damaged");
        }
        let sizes = [10, 12, 14].map(|at| usize::from(u16::from_le_bytes(part(bytes, at))));
        let most = u32::from_le_bytes(part(bytes, 16));
        if sizes != [FILE_HEADER, BLOCK_HEADER, RECORD] || most as usize != MOST_RECORDS {
            return Err("its parts have other sizes than those of version 1");
        }
        let known = u32::from_le_bytes(part(bytes, 20));
        let clock = |at| match name(part(bytes, at)) {
            Some(UNKNOWN) => Ok(None),
            Some("CLOCK_REALTIME") => Ok(Some(Clock::Realtime)),
            Some("CLOCK_TAI") => Ok(Some(Clock::Tai)),
            Some("CLOCK_MONOTONIC") => Ok(Some(Clock::Monotonic)),
            _ => Err("it names a clock that is not known"),
        };
        if !name(part(bytes, 96)).is_some_and(|it| it == STAMPS || OTHER_STAMPS.contains(&it)) {
            return Err("it names stamps that are not known");
        }
        Ok(Self {
            begun_ns: u64::from_le_bytes(part(bytes, 24)),
            transmission: (known & TRANSMISSION_KNOWN != 0)
                .then(|| u16::from_le_bytes(part(bytes, 32))),
            sender_clock: clock(64)?,
            receiver_clock: clock(80)?,
            one_clock: known & ONE_CLOCK != 0,
            round_trip: known & ROUND_TRIP != 0,
        })
    }
}

/// The header of a block with these records, which are in the form of the file.
#[must_use]
pub fn block_header(first: u64, records: &[u8]) -> [u8; BLOCK_HEADER] {
    let count = u32::try_from(records.len() / RECORD).unwrap_or(u32::MAX);
    let mut bytes = [0; BLOCK_HEADER];
    bytes[0..8].copy_from_slice(&BLOCK_MAGIC);
    bytes[8..16].copy_from_slice(&first.to_le_bytes());
    bytes[16..20].copy_from_slice(&count.to_le_bytes());
    bytes[20..24].copy_from_slice(&crc32fast::hash(records).to_le_bytes());
    seal(&mut bytes);
    bytes
}

/// First number, records, and their CRC; `None` if it is no header of a block.
#[must_use]
pub fn read_block_header(bytes: &[u8; BLOCK_HEADER]) -> Option<(u64, usize, u32)> {
    let count = u32::from_le_bytes(part(bytes, 16)) as usize;
    (bytes[..8] == BLOCK_MAGIC && is_sealed(bytes) && count <= MOST_RECORDS)
        .then(|| (u64::from_le_bytes(part(bytes, 8)), count, u32::from_le_bytes(part(bytes, 20))))
}

/// Records that were read whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Number of the first one's datagram.
    pub first: u64,
    /// One for each datagram from there on.
    pub records: Vec<Record>,
}

/// Why a part of a file, or all of it, is not read.
#[derive(Debug)]
pub enum Trouble {
    /// The file is none of records, or not of this version.
    NoRecords(&'static str),
    /// Bytes that are no whole block; reading goes on after them.
    Damaged {
        /// Where they begin.
        at: u64,
        /// How many they are.
        bytes: u64,
    },
    /// The file ends within a block.
    Cut {
        /// Where that block begins.
        at: u64,
    },
    /// The file ends without a last block: who wrote it was ended, or the disk was full.
    NoEnd,
    /// What the system said.
    Io(io::Error),
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoRecords(why) => write!(to, "no file of packet records: {why}"),
            Self::Damaged { at, bytes } => write!(to, "{bytes} bytes from byte {at} are damaged"),
            Self::Cut { at } => write!(to, "the file ends within the block that begins at {at}"),
            Self::NoEnd => write!(to, "the file has no end: its writer was stopped"),
            Self::Io(error) => write!(to, "{error}"),
        }
    }
}

impl std::error::Error for Trouble {}

/// Reads a file block by block, in memory of two blocks whatever the file says.
///
/// Each item is a whole block, or what is wrong between two of them. After [`Trouble::Damaged`] it
/// goes on with the next whole block; after any other trouble nothing comes.
pub struct Reader<R> {
    from: R,
    header: FileHeader,
    /// What was read of the file and is not used up: from `begin` on.
    held: Vec<u8>,
    begin: usize,
    /// Where in the file `begin` is.
    at: u64,
    /// A block's first number is not below it.
    next: u64,
    received: Option<u64>,
    done: bool,
}

impl<R: Read> Reader<R> {
    /// Begin to read.
    ///
    /// # Errors
    /// If it is no file of records, or cannot be read.
    pub fn new(mut from: R) -> Result<Self, Trouble> {
        let mut bytes = [0; FILE_HEADER];
        from.read_exact(&mut bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Trouble::NoRecords("it is shorter than the header"),
            _ => Trouble::Io(error),
        })?;
        let header = FileHeader::from_bytes(&bytes).map_err(Trouble::NoRecords)?;
        Ok(Self {
            from,
            header,
            held: Vec::with_capacity(2 * MOST_BLOCK),
            begin: 0,
            at: FILE_HEADER as u64,
            next: 0,
            received: None,
            done: false,
        })
    }

    /// What the file says of all records.
    #[must_use]
    pub fn header(&self) -> &FileHeader {
        &self.header
    }

    /// How many datagrams were received, kept or not: known at the end of a file that has one.
    #[must_use]
    pub fn received(&self) -> Option<u64> {
        self.received
    }

    /// Have `bytes` bytes at hand if the file has as many; says how many there are.
    fn ensure(&mut self, bytes: usize) -> io::Result<usize> {
        debug_assert!(bytes <= MOST_BLOCK);
        if self.held.len() - self.begin < bytes {
            self.held.drain(..self.begin);
            self.begin = 0;
            let missing = (2 * MOST_BLOCK - self.held.len()) as u64;
            self.from.by_ref().take(missing).read_to_end(&mut self.held)?;
        }
        Ok(self.held.len() - self.begin)
    }

    fn skip(&mut self, bytes: usize) {
        self.begin += bytes;
        self.at += bytes as u64;
    }

    /// The block that begins here.
    fn block_here(&mut self) -> io::Result<Here> {
        let there = self.ensure(BLOCK_HEADER)?;
        let Some(bytes) = self.held[self.begin..].first_chunk() else {
            return Ok(if there == 0 { Here::End } else { Here::Cut });
        };
        let Some((first, count, crc)) = read_block_header(bytes) else {
            return Ok(Here::Nothing);
        };
        let size = BLOCK_HEADER + (count * RECORD);
        if self.ensure(size)? < size {
            return Ok(Here::Cut);
        }
        let records = &self.held[self.begin + BLOCK_HEADER..self.begin + size];
        let number_fits = first.checked_add(count as u64).is_some() && first >= self.next;
        if crc32fast::hash(records) != crc || !number_fits {
            return Ok(Here::Nothing);
        }
        let records = records.chunks_exact(RECORD);
        let records =
            records.filter_map(<[u8]>::first_chunk).map(Record::from_bytes).collect::<Vec<_>>();
        Ok(Here::Block(Block { first, records }))
    }

    /// The next block, or what is wrong before it; `None` at the end.
    fn step(&mut self) -> io::Result<Option<Result<Block, Trouble>>> {
        let begun = self.at;
        loop {
            let here = self.block_here()?;
            let bytes = self.at - begun;
            // What is wrong is told before what follows it, which is looked at again.
            if bytes > 0 && !matches!(here, Here::Nothing) {
                return Ok(Some(Err(Trouble::Damaged { at: begun, bytes })));
            }
            match here {
                Here::Nothing => self.skip(STEP),
                Here::Block(block) if block.records.is_empty() => {
                    self.skip(BLOCK_HEADER);
                    self.received = Some(block.first);
                    self.done = true;
                    return Ok(self.behind_the_end()?.map(Err));
                }
                Here::Block(block) => {
                    self.skip(BLOCK_HEADER + (block.records.len() * RECORD));
                    self.next = block.first + block.records.len() as u64;
                    return Ok(Some(Ok(block)));
                }
                Here::Cut | Here::End => {
                    self.done = true;
                    let cut = matches!(here, Here::Cut);
                    let trouble = if cut { Trouble::Cut { at: begun } } else { Trouble::NoEnd };
                    return Ok(Some(Err(trouble)));
                }
            }
        }
    }

    /// What stands behind the last block is wrong, whatever it is.
    fn behind_the_end(&mut self) -> io::Result<Option<Trouble>> {
        let at = self.at;
        loop {
            let there = self.ensure(STEP)?;
            if there == 0 {
                break;
            }
            self.skip(there);
        }
        let bytes = self.at - at;
        Ok((bytes > 0).then_some(Trouble::Damaged { at, bytes }))
    }
}

/// What is where a block may begin.
enum Here {
    Block(Block),
    /// No block.
    Nothing,
    /// Less than the block there says, or less than a block's header.
    Cut,
    /// The file's end.
    End,
}

impl<R: Read> Iterator for Reader<R> {
    type Item = Result<Block, Trouble>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let found = self.step().unwrap_or_else(|error| {
            self.done = true;
            Some(Err(Trouble::Io(error)))
        });
        self.done |= found.is_none();
        found
    }
}

/// Put the CRC of what is before into the last four bytes.
fn seal(bytes: &mut [u8]) {
    let (before, crc) = bytes.split_at_mut(bytes.len() - 4);
    crc.copy_from_slice(&crc32fast::hash(before).to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let (before, crc) = bytes.split_at(bytes.len() - 4);
    crc == crc32fast::hash(before).to_le_bytes()
}

fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    *bytes[at..].first_chunk().expect("the field is within the part")
}

fn small(size: usize) -> u16 {
    u16::try_from(size).expect("the sizes of the format are small")
}

/// The text before the zeros.
fn name(bytes: [u8; NAME]) -> Option<&'static str> {
    [UNKNOWN, "CLOCK_REALTIME", "CLOCK_TAI", "CLOCK_MONOTONIC", STAMPS].into_iter().find(|name| {
        let (held, rest) = bytes.split_at(name.len());
        held == name.as_bytes() && rest.iter().all(|&byte| byte == 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::sample::Index;

    const HEADER: FileHeader = FileHeader {
        begun_ns: 1_800_000_000_000_000_000,
        transmission: Some(77),
        sender_clock: Some(Clock::Tai),
        receiver_clock: Some(Clock::Realtime),
        one_clock: false,
        round_trip: true,
    };

    fn any_record() -> impl Strategy<Value = Record> {
        any::<(u64, u64, u64, u16, u16, u32)>().prop_map(
            |(sequence, sent_ns, received_ns, flow, payload_bytes, flags)| Record {
                sequence,
                sent_ns,
                received_ns,
                flow,
                payload_bytes,
                flags,
            },
        )
    }

    /// Blocks, and how many datagrams before each are lost.
    fn any_blocks() -> impl Strategy<Value = Vec<Block>> {
        let one = (0_u64..3, prop::collection::vec(any_record(), 1..5));
        prop::collection::vec(one, 0..6).prop_map(|parts| {
            let mut next = 0;
            let place = |(lost, records): (u64, Vec<Record>)| {
                let first = next + lost;
                next = first + records.len() as u64;
                Block { first, records }
            };
            parts.into_iter().map(place).collect()
        })
    }

    fn received(blocks: &[Block]) -> u64 {
        blocks.last().map_or(0, |last| last.first + last.records.len() as u64)
    }

    /// A file, and where each of its parts ends.
    fn written(blocks: &[Block]) -> (Vec<u8>, Vec<usize>) {
        let mut file = HEADER.to_bytes().to_vec();
        let mut ends = vec![file.len()];
        for block in blocks {
            let records = block.records.iter().flat_map(|record| record.to_bytes());
            let records = records.collect::<Vec<_>>();
            file.extend(block_header(block.first, &records));
            file.extend(records);
            ends.push(file.len());
        }
        file.extend(block_header(received(blocks), &[]));
        ends.push(file.len());
        (file, ends)
    }

    /// Whole blocks, troubles, and what the end says.
    type Found = (Vec<Block>, Vec<Trouble>, Option<u64>);

    fn read(file: &[u8]) -> Result<Found, Trouble> {
        let mut reader = Reader::new(file)?;
        assert_eq!(reader.header(), &HEADER);
        let (mut blocks, mut troubles) = (Vec::new(), Vec::new());
        for item in reader.by_ref() {
            match item {
                Ok(block) => blocks.push(block),
                Err(trouble) => troubles.push(trouble),
            }
        }
        assert!(reader.next().is_none());
        Ok((blocks, troubles, reader.received()))
    }

    #[test]
    fn the_layout_is_as_documented() {
        let record = Record {
            sequence: 0x0102_0304_0506_0708,
            sent_ns: 1,
            received_ns: 2,
            flow: 0x0a0b,
            payload_bytes: 0x0c0d,
            flags: 0xf0f1_f2f3,
        };
        let bytes = record.to_bytes();
        assert_eq!(bytes[..9], [8, 7, 6, 5, 4, 3, 2, 1, 1]);
        assert_eq!(
            bytes[16..],
            [2, 0, 0, 0, 0, 0, 0, 0, 0xb, 0xa, 0xd, 0xc, 0xf3, 0xf2, 0xf1, 0xf0]
        );
        let file = HEADER.to_bytes();
        assert_eq!(file[..20], *b"skbpkts\n\x01\x00\x80\x00\x20\x00\x20\x00\x00\x10\x00\x00");
        assert_eq!(file[32..36], [77, 0, 0, 0]);
        assert_eq!(
            file[64..112],
            *b"CLOCK_TAI\0\0\0\0\0\0\0CLOCK_REALTIME\0\0kernel\0\0\0\0\0\0\0\0\0\0"
        );
        assert_eq!(block_header(3, &bytes)[..20], *b"pktblock\x03\0\0\0\0\0\0\0\x01\0\0\0");
    }

    #[test]
    fn other_files_are_refused() {
        for (file, why) in [
            (&b""[..], "shorter than the header"),
            (b"skbpkts\n", "shorter than the header"),
            (&[0; 200], "does not begin as"),
        ] {
            let said = Reader::new(file).err().expect("it is refused").to_string();
            assert!(said.contains(why), "{said}");
        }
        // Sealed anew, so that nothing else is wrong.
        for (at, why) in
            [(8, "version"), (14, "sizes"), (64, "clock"), (80, "clock"), (96, "stamps")]
        {
            let mut file = HEADER.to_bytes();
            file[at] ^= 0x40;
            seal(&mut file);
            let said = Reader::new(&file[..]).err().expect("it is refused").to_string();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_block_that_claims_too_much_is_none() {
        let mut block = block_header(0, &[]);
        block[16..20].copy_from_slice(&u32::MAX.to_le_bytes());
        seal(&mut block);
        let file = [&HEADER.to_bytes()[..], &block].concat();
        let (blocks, troubles, received) = read(&file).unwrap();
        assert!(blocks.is_empty() && received.is_none());
        assert!(matches!(troubles[..], [Trouble::Damaged { at: 128, bytes: 32 }, Trouble::NoEnd]));
    }

    #[test]
    fn large_blocks_cross_the_buffer() {
        let mut blocks = Vec::new();
        for number in 0..9 {
            let record = Record { sequence: number, ..Record::default() };
            blocks.push(Block {
                first: number * MOST_RECORDS as u64,
                records: vec![record; MOST_RECORDS],
            });
        }
        let (mut file, ends) = written(&blocks);
        assert_eq!(read(&file).unwrap().0, blocks);
        file[ends[3] + 40] ^= 1;
        let (whole, troubles, _) = read(&file).unwrap();
        assert_eq!(whole.len(), 8);
        let damaged = MOST_BLOCK as u64;
        assert!(matches!(&troubles[..], &[Trouble::Damaged { bytes, .. }] if bytes == damaged));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(blocks in any_blocks()) {
            let (file, _) = written(&blocks);
            let (found, troubles, count) = read(&file).unwrap();
            prop_assert_eq!(count, Some(received(&blocks)));
            prop_assert_eq!(found, blocks);
            prop_assert!(troubles.is_empty(), "{:?}", troubles);
        }

        #[test]
        fn a_cut_leaves_the_whole_blocks_before_it(blocks in any_blocks(), at: Index) {
            let (file, ends) = written(&blocks);
            let at = at.index(file.len());
            let Ok((found, troubles, count)) = read(&file[..at]) else {
                prop_assert!(at < FILE_HEADER);
                return Ok(());
            };
            let whole = ends.iter().filter(|&&end| end <= at).count() - 1;
            prop_assert_eq!(&found[..], &blocks[..whole]);
            prop_assert_eq!(count, None);
            let between = ends.contains(&at);
            prop_assert_eq!(troubles.len(), 1);
            prop_assert_eq!(matches!(troubles[0], Trouble::NoEnd), between);
            prop_assert_eq!(matches!(troubles[0], Trouble::Cut { .. }), !between);
        }

        #[test]
        fn a_wrong_byte_costs_its_block_and_is_noticed(
            blocks in any_blocks(), at: Index, flip in 1_u8..=255
        ) {
            let (mut file, ends) = written(&blocks);
            let at = at.index(file.len());
            file[at] ^= flip;
            let Ok((found, troubles, count)) = read(&file) else {
                prop_assert!(at < FILE_HEADER);
                return Ok(());
            };
            prop_assert!(at >= FILE_HEADER);
            let hit = ends.iter().filter(|&&end| end <= at).count() - 1;
            let mut rest = blocks.clone();
            if hit < blocks.len() {
                rest.remove(hit);
                prop_assert_eq!(count, Some(received(&blocks)));
            } else {
                prop_assert_eq!(count, None);
            }
            prop_assert_eq!(found, rest);
            let damaged = (ends[hit], ends.get(hit + 1).map_or(0, |end| end - ends[hit]));
            let told = matches!(
                troubles[0],
                Trouble::Damaged { at, bytes } if (at, bytes) == (damaged.0 as u64, damaged.1 as u64)
            );
            prop_assert!(told, "{:?}", troubles);
        }

        /// As a disk that comes back with pieces of it missing, of other files, or twice.
        #[test]
        fn pieces_in_any_order_yield_true_blocks_only(
            blocks in any_blocks(), pieces in prop::collection::vec(any::<(Index, Index)>(), 0..6)
        ) {
            let (file, _) = written(&blocks);
            let mut torn = file[..FILE_HEADER].to_vec();
            for (from, to) in pieces {
                let (from, to) = (from.index(file.len()), to.index(file.len()));
                torn.extend(&file[from.min(to)..from.max(to)]);
            }
            let (found, _, _) = read(&torn).unwrap();
            prop_assert!(found.windows(2).all(|two| two[0].first < two[1].first));
            prop_assert!(found.iter().all(|block| blocks.contains(block)));
        }

        #[test]
        fn any_bytes_are_safe(file: Vec<u8>, tail: Vec<u8>) {
            prop_assert!(Reader::new(&file[..]).is_err());
            let file = [&HEADER.to_bytes()[..], &tail].concat();
            let (found, troubles, _) = read(&file).unwrap();
            prop_assert!(found.is_empty() && !troubles.is_empty());
        }
    }
}
