// SPDX-License-Identifier: GPL-2.0-or-later
//! Reads a file in pieces that several processors may take, each by its own reading of the file.
//!
//! Of records, who asks for the next piece only looks at the headers of blocks; who has taken it
//! checks the records. Where anything is wrong, the file is read again from its beginning, by
//! [`skblab_traffic::record::Reader`], which finds what is whole behind it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::Path;

use skblab_traffic::header::Clock;
use skblab_traffic::record::{
    BLOCK_HEADER, FILE_HEADER, FileHeader, MOST_RECORDS, RECORD, Reader, Trouble, read_block_header,
};

use crate::columns::{Layout, times_of};

/// How large a piece is, in blocks of records or as many pairs: they are still in the processor's
/// own cache when they are looked at.
pub const LARGE: usize = 4;
/// The same, where each piece may have many lists of anomalies, and many pieces are there at once.
pub const SMALL: usize = 1;
/// Packets that are looked at for a first one that has times.
const FIRST: usize = 4096;
/// What the kernel copies out of its cache at once.
const PAGE: usize = 4096;
const MAGIC: &[u8; 8] = b"skbpkts\n";

/// Why there are no figures.
#[derive(Debug)]
pub enum Refused {
    /// It is not what was expected.
    Usage(String),
    /// The system does not let us.
    Failed(String),
}

/// Why a piece is not read.
#[derive(Debug)]
pub enum Stop {
    /// It is to be read with care.
    Damaged,
    /// What the system said.
    Io(io::Error),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Some packets that are read at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which it is, from 0.
    pub number: u64,
    at: u64,
    bytes: usize,
    place: u64,
}

/// What a file says of all packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct About {
    /// What it is made of.
    pub layout: Layout,
    /// Of records.
    pub header: Option<FileHeader>,
    /// Bits of the header, of which some say what it lacks.
    pub bits: u32,
}

impl About {
    /// Whether it has what only records have, and of which this bit says that it lacks.
    #[must_use]
    pub fn has(&self, lacking: u32) -> bool {
        self.layout == Layout::Records && self.bits & lacking == 0
    }
}

/// What an imported file's source does not say.
pub const LACKS_SEQUENCE: u32 = 1 << 8;
/// When packets were sent.
pub const LACKS_SENT: u32 = 1 << 9;
/// Flows.
pub const LACKS_FLOW: u32 = 1 << 10;
/// Sizes.
pub const LACKS_PAYLOAD: u32 = 1 << 11;

/// An open file.
pub struct Source {
    file: File,
    /// What it is.
    pub about: About,
    bytes: u64,
}

/// Where the next piece begins, and what was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Place {
    at: u64,
    number: u64,
    following: u64,
    done: bool,
    /// Blocks in a piece.
    blocks: usize,
    /// What is wrong with the file.
    pub troubles: Vec<String>,
    /// Datagrams between those that are in it.
    pub not_kept: u64,
}

impl Source {
    /// Open a file; its format is told from its content or name if it is not given.
    ///
    /// # Errors
    /// If it cannot be read, or is none of these.
    pub fn open(path: &Path, given: Option<Layout>) -> Result<Self, Refused> {
        let name = path.display();
        let usage = |error: io::Error| Refused::Usage(format!("cannot read {name}: {error}"));
        // Before it is opened: that waits for whoever writes into a pipe.
        if !fs::metadata(path).map_err(usage)?.is_file() {
            return Err(Refused::Usage(format!(
                "{name} is no regular file: its parts are read more than once; store it in one first"
            )));
        }
        let mut file = File::open(path).map_err(usage)?;
        let about = file.metadata().map_err(usage)?;
        let mut head = Vec::new();
        file.by_ref().take(FILE_HEADER as u64).read_to_end(&mut head).map_err(usage)?;
        let by_name =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("timestamps-"));
        let found = if head.starts_with(MAGIC) {
            Some(Layout::Records)
        } else {
            by_name.then_some(Layout::Timestamps)
        };
        if head.starts_with(MAGIC) && given.is_some_and(|given| given != Layout::Records) {
            return Err(Refused::Usage(format!(
                "{name} is a file of packet records: leave --format out"
            )));
        }
        let Some(layout) = given.or(found) else {
            let why =
                if head.is_empty() { "it is empty" } else { "it does not begin as records do" };
            return Err(Refused::Usage(format!(
                "{name}: {why}; expected records of skblab traffic receive --record or of skblab \
                 traffic import -o; of two times a packet, say which by --format timestamps or pairs"
            )));
        };
        let mut bits = 0;
        let mut header = None;
        if layout == Layout::Records {
            let of =
                |why: &str| Refused::Usage(format!("{name} is no file of packet records: {why}"));
            let whole = head.first_chunk().ok_or_else(|| of("it is shorter than the header"))?;
            header = Some(FileHeader::from_bytes(whole).map_err(of)?);
            bits = u32::from_le_bytes([head[20], head[21], head[22], head[23]]);
        }
        Ok(Self { file, about: About { layout, header, bits }, bytes: about.len() })
    }

    /// Before the first piece.
    #[must_use]
    pub fn begin(&self, blocks: usize) -> Place {
        let at = if self.about.layout == Layout::Records { FILE_HEADER as u64 } else { 0 };
        Place { at, blocks, ..Place::default() }
    }

    /// When the first packet came, of those at the beginning that have times.
    ///
    /// # Errors
    /// What the system says.
    pub fn first_ns(&self) -> io::Result<Option<i64>> {
        let size = self.about.layout.bytes();
        let received = |data: &[u8]| {
            data.chunks_exact(size).find_map(|data| Some(times_of(self.about.layout, data)?.1))
        };
        if self.about.layout == Layout::Records {
            let mut found = None;
            self.read_with_care(|_, data| {
                found = received(data);
                found.is_none()
            })?;
            return Ok(found);
        }
        let mut data = vec![0; usize::try_from(self.bytes).unwrap_or(FIRST).min(FIRST * size)];
        self.file.read_exact_at(&mut data, 0)?;
        Ok(received(&data))
    }

    /// The next piece.
    ///
    /// # Errors
    /// If it is not as it is to be.
    pub fn next(&self, place: &mut Place) -> Result<Option<Piece>, Stop> {
        if place.done {
            return Ok(None);
        }
        let begin = Piece { number: place.number, at: place.at, bytes: 0, place: place.following };
        let piece = if self.about.layout == Layout::Records {
            self.next_blocks(place, begin)?
        } else {
            self.next_pairs(place, begin)
        };
        place.number += 1;
        Ok((piece.bytes > 0).then_some(piece))
    }

    fn next_pairs(&self, place: &mut Place, mut piece: Piece) -> Piece {
        let size = self.about.layout.bytes();
        let rest = usize::try_from(self.bytes - place.at).unwrap_or(usize::MAX);
        let count = (rest / size).min(place.blocks * MOST_RECORDS);
        piece.bytes = count * size;
        place.at += piece.bytes as u64;
        place.following += count as u64;
        let rest = rest - piece.bytes;
        if rest < size {
            place.done = true;
            if rest > 0 {
                place.troubles.push(format!(
                    "the file ends within a packet: its last {rest} bytes are left out"
                ));
            }
        }
        piece
    }

    fn next_blocks(&self, place: &mut Place, mut piece: Piece) -> Result<Piece, Stop> {
        for _ in 0..place.blocks {
            let rest = self.bytes - place.at;
            let mut head = [0; BLOCK_HEADER];
            if rest < BLOCK_HEADER as u64 {
                let cut = Trouble::Cut { at: place.at };
                place.end(if rest > 0 { &cut } else { &Trouble::NoEnd });
                break;
            }
            self.file.read_exact_at(&mut head, place.at)?;
            let (first, count, _) = read_block_header(&head).ok_or(Stop::Damaged)?;
            let size = BLOCK_HEADER + (count * RECORD);
            let end = first.checked_add(count as u64).ok_or(Stop::Damaged)?;
            if first < place.following {
                return Err(Stop::Damaged);
            }
            if rest < size as u64 {
                place.end(&Trouble::Cut { at: place.at });
                break;
            }
            place.gap(first, count == 0);
            place.following = end;
            if count == 0 {
                place.done = true;
                if rest > size as u64 {
                    return Err(Stop::Damaged);
                }
                break;
            }
            piece.bytes += size;
            place.at += size as u64;
        }
        Ok(piece)
    }

    /// Read a piece, check it, and give its packets and the place in the file of the first.
    ///
    /// # Errors
    /// If it is not as it is to be.
    pub fn read(
        &self,
        piece: &Piece,
        buffer: &mut Vec<u8>,
        mut take: impl FnMut(&[u8], u64),
    ) -> Result<(), Stop> {
        let data = aligned(buffer, piece.bytes);
        self.file.read_exact_at(data, piece.at)?;
        if self.about.layout != Layout::Records {
            take(data, piece.place);
            return Ok(());
        }
        let mut rest = &data[..];
        while let Some((head, data)) = rest.split_first_chunk() {
            let (first, count, crc) = read_block_header(head).ok_or(Stop::Damaged)?;
            let (records, behind) = data.split_at_checked(count * RECORD).ok_or(Stop::Damaged)?;
            if crc32fast::hash(records) != crc {
                return Err(Stop::Damaged);
            }
            take(records, first);
            rest = behind;
        }
        Ok(())
    }

    /// Give the records of each whole block, and the place of the first, until `take` wants no more.
    ///
    /// # Errors
    /// What the system says.
    pub fn read_with_care(&self, mut take: impl FnMut(u64, &[u8]) -> bool) -> io::Result<Place> {
        let mut place = self.begin(SMALL);
        let mut file = &self.file;
        file.seek(SeekFrom::Start(0))?;
        let mut reader = match Reader::new(file.take(self.bytes)) {
            Ok(reader) => reader,
            Err(Trouble::Io(error)) => return Err(error),
            Err(trouble) => {
                place.troubles.push(trouble.to_string());
                return Ok(place);
            }
        };
        let mut data = Vec::new();
        for item in reader.by_ref() {
            match item {
                Ok(block) => {
                    place.gap(block.first, false);
                    place.following = block.first + block.records.len() as u64;
                    data.clear();
                    data.extend(block.records.iter().flat_map(|record| record.to_bytes()));
                    if !take(block.first, &data) {
                        return Ok(place);
                    }
                }
                Err(Trouble::Io(error)) => return Err(error),
                Err(trouble) => place.troubles.push(trouble.to_string()),
            }
        }
        if let Some(received) = reader.received() {
            place.gap(received, true);
        }
        Ok(place)
    }
}

impl Place {
    fn end(&mut self, trouble: &Trouble) {
        self.troubles.push(trouble.to_string());
        self.done = true;
    }

    /// What is between the last packet and this number.
    fn gap(&mut self, first: u64, at_end: bool) {
        let missing = first.saturating_sub(self.following);
        if missing == 0 {
            return;
        }
        self.not_kept += missing;
        // A disk that is too slow leaves a gap after the other: one line has them all.
        let place = if at_end { "at the end" } else { "between others" };
        let line = format!(
            " packets are not in the file, the first of them number {} {place}: it was written too \
             slowly, or is damaged there",
            self.following
        );
        let known = self.troubles.iter_mut().find(|line| line.contains(" packets are not in the"));
        if let Some(known) = known {
            let (_, rest) = known.split_once(' ').unwrap_or_default();
            *known = format!("{} {rest}", self.not_kept);
        } else {
            self.troubles.push(format!("{}{line}", self.not_kept));
        }
    }
}

/// So many bytes that begin with a page.
///
/// The kernel copies to them several times as fast as to any other place.
fn aligned(buffer: &mut Vec<u8>, bytes: usize) -> &mut [u8] {
    if buffer.len() < bytes + PAGE {
        buffer.resize(bytes + PAGE, 0);
    }
    let begin = buffer.as_ptr().align_offset(PAGE).min(PAGE);
    &mut buffer[begin..begin + bytes]
}

/// The receiver's clock is the one of which records say how the sender's relates to it.
#[must_use]
pub fn is_realtime(header: &FileHeader) -> bool {
    header.receiver_clock == Some(Clock::Realtime)
}
