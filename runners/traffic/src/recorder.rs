// SPDX-License-Identifier: GPL-2.0-or-later
//! Writes the record of each datagram to a file, by a thread of its own and in bounded memory.
//!
//! Whoever records waits for nothing: a full block goes to the writer, and if the writer is
//! [`MOST_WAITING`] blocks behind, the block's records are counted as lost instead. A block goes at
//! least once a second, so a file whose writer was killed lacks what came in its last second.
//! [`crate::record`] has the format.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::thread::{self, JoinHandle};

use crate::clock::monotonic_ns;
use crate::record::{BLOCK_HEADER, FileHeader, MOST_RECORDS, RECORD, Record, block_header};
use crate::report::RecordReport;

/// Blocks that may wait for the disk: 32 MiB, more than a million records.
pub const MOST_WAITING: usize = 256;
/// A block goes after so long, and a look of the receiver takes up to 50 ms.
const LONGEST_NS: u64 = 900_000_000;

/// What the writer takes: it fills in the header of a block.
enum Part {
    Header(FileHeader),
    Block { first: u64, bytes: Vec<u8> },
    End { received: u64 },
}

/// What the writer did.
#[derive(Default)]
struct Written {
    kept: u64,
    lost: u64,
    bytes: u64,
    error: Option<io::Error>,
}

/// Takes records.
pub struct Recorder {
    path: PathBuf,
    to_writer: SyncSender<Part>,
    spare: Receiver<Vec<u8>>,
    writer: JoinHandle<Written>,
    begun: bool,
    /// Room for the block's header, then its records.
    block: Vec<u8>,
    /// Number of the block's first record, of all.
    first: u64,
    count: u64,
    opened_ns: u64,
    too_slow: u64,
}

impl Recorder {
    /// Create the file; one that is there is replaced.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = File::create(path)?;
        Self::spawn(path.to_owned(), file, MOST_WAITING)
    }

    fn spawn<W: Output + Send + 'static>(path: PathBuf, to: W, waiting: usize) -> io::Result<Self> {
        let (to_writer, parts) = sync_channel(waiting);
        let (spares, spare) = channel();
        let writer = thread::Builder::new()
            .name("record".to_owned())
            .spawn(move || write_all(to, &parts, &spares))?;
        let block = empty_block();
        Ok(Self {
            path,
            to_writer,
            spare,
            writer,
            begun: false,
            block,
            first: 0,
            count: 0,
            opened_ns: 0,
            too_slow: 0,
        })
    }

    /// Add a record. `header` is asked for when the file's is to be written: with the first block.
    pub fn add(&mut self, record: Record, header: impl FnOnce() -> FileHeader) {
        if self.count == 0 {
            self.opened_ns = monotonic_ns();
        }
        self.block.extend_from_slice(&record.to_bytes());
        self.count += 1;
        if self.count == MOST_RECORDS as u64 {
            self.flush(header);
        }
    }

    /// Write what there is if it has waited for long. To be called a few times a second.
    pub fn tick(&mut self, now_ns: u64, header: impl FnOnce() -> FileHeader) {
        if self.count > 0 && now_ns.saturating_sub(self.opened_ns) >= LONGEST_NS {
            self.flush(header);
        }
    }

    /// Give the block to the writer, or count its records as lost.
    fn flush(&mut self, header: impl FnOnce() -> FileHeader) {
        if self.count == 0 {
            return;
        }
        self.begin(header);
        let next = self.spare.try_recv().unwrap_or_else(|_| empty_block());
        let bytes = std::mem::replace(&mut self.block, next);
        let sent = self.to_writer.try_send(Part::Block { first: self.first, bytes });
        if let Err(TrySendError::Full(part) | TrySendError::Disconnected(part)) = sent {
            self.too_slow += self.count;
            if let Part::Block { mut bytes, .. } = part {
                bytes.truncate(BLOCK_HEADER);
                self.block = bytes;
            }
        }
        self.first += self.count;
        self.count = 0;
    }

    fn begin(&mut self, header: impl FnOnce() -> FileHeader) {
        if !self.begun {
            self.begun = true;
            // Nothing is before it, and a writer that is gone says so in the end.
            let _ = self.to_writer.send(Part::Header(header()));
        }
    }

    /// Write the rest and the end, and wait for it.
    #[must_use]
    pub fn finish(mut self, header: impl FnOnce() -> FileHeader) -> RecordReport {
        // A file without any record has a header, too.
        let header = header();
        self.begin(|| header);
        self.flush(|| header);
        let _ = self.to_writer.send(Part::End { received: self.first });
        drop(self.to_writer);
        let written = self.writer.join().unwrap_or_else(|_| Written {
            lost: self.first - self.too_slow,
            error: Some(io::Error::other("the writer failed")),
            ..Written::default()
        });
        RecordReport {
            file: self.path.display().to_string(),
            kept: written.kept,
            lost: written.lost + self.too_slow,
            too_slow: self.too_slow,
            bytes: written.bytes,
            error: written.error.map(|error| error.to_string()),
        }
    }
}

fn empty_block() -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_HEADER + (MOST_RECORDS * RECORD));
    block.resize(BLOCK_HEADER, 0);
    block
}

/// What can be written to, and be cut behind what was written whole.
trait Output: Write {
    fn cut(&mut self, bytes: u64) -> io::Result<()>;
}

impl Output for File {
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }
}

/// Write until nobody has anything more; after an error, only count.
fn write_all<W: Output>(mut to: W, parts: &Receiver<Part>, spares: &Sender<Vec<u8>>) -> Written {
    let mut done = Written::default();
    for part in parts {
        let (count, bytes) = match part {
            Part::Header(header) => (0, header.to_bytes().to_vec()),
            Part::End { received } => (0, block_header(received, &[]).to_vec()),
            Part::Block { first, mut bytes } => {
                let (head, records) = bytes.split_at_mut(BLOCK_HEADER);
                head.copy_from_slice(&block_header(first, records));
                ((records.len() / RECORD) as u64, bytes)
            }
        };
        if done.error.is_none() {
            match to.write_all(&bytes) {
                Ok(()) => done.bytes += bytes.len() as u64,
                Err(error) => {
                    done.error = Some(error);
                    // A piece of a block is of no use; a device or a pipe keeps it.
                    let _ = to.cut(done.bytes);
                }
            }
        }
        *(if done.error.is_none() { &mut done.kept } else { &mut done.lost }) += count;
        if count > 0 {
            let mut bytes = bytes;
            bytes.truncate(BLOCK_HEADER);
            // Nobody needs it any more at the end.
            let _ = spares.send(bytes);
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::Clock;
    use crate::record::{Block, FILE_HEADER, Reader, Trouble};
    use proptest::prelude::*;
    use std::sync::{Arc, Condvar, Mutex};

    const HEADER: FileHeader = FileHeader {
        begun_ns: 5,
        transmission: None,
        sender_clock: None,
        receiver_clock: Some(Clock::Realtime),
        one_clock: false,
        round_trip: false,
    };

    /// A disk in memory: so large, and it may be made to stand still.
    #[derive(Clone)]
    struct Disk(Arc<(Mutex<State>, Condvar)>);

    struct State {
        bytes: Vec<u8>,
        size: usize,
        stands: bool,
    }

    impl Disk {
        fn of(size: usize) -> Self {
            let state = State { bytes: Vec::new(), size, stands: false };
            Self(Arc::new((Mutex::new(state), Condvar::new())))
        }

        fn stand(&self, stands: bool) {
            self.0.0.lock().unwrap().stands = stands;
            self.0.1.notify_all();
        }

        fn bytes(&self) -> Vec<u8> {
            self.0.0.lock().unwrap().bytes.clone()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let state = self.0.0.lock().unwrap();
            let mut state = self.0.1.wait_while(state, |state| state.stands).unwrap();
            let room = bytes.len().min(state.size - state.bytes.len());
            if room == 0 {
                return Err(io::Error::from_raw_os_error(libc::ENOSPC));
            }
            state.bytes.extend(&bytes[..room]);
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Output for Disk {
        fn cut(&mut self, bytes: u64) -> io::Result<()> {
            self.0.0.lock().unwrap().bytes.truncate(usize::try_from(bytes).unwrap());
            Ok(())
        }
    }

    fn recorder(disk: &Disk, waiting: usize) -> Recorder {
        Recorder::spawn("made-up".into(), disk.clone(), waiting).unwrap()
    }

    fn record(sequence: u64) -> Record {
        Record { sequence, ..Record::default() }
    }

    fn add(recorder: &mut Recorder, numbers: std::ops::Range<u64>) {
        for number in numbers {
            recorder.add(record(number), || HEADER);
        }
    }

    /// Blocks, and what the file's end says of how many were received.
    fn read(disk: &Disk) -> (Vec<Block>, Option<u64>, Vec<Trouble>) {
        let bytes = disk.bytes();
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let (mut blocks, mut troubles) = (Vec::new(), Vec::new());
        for item in reader.by_ref() {
            match item {
                Ok(block) => blocks.push(block),
                Err(trouble) => troubles.push(trouble),
            }
        }
        // Each record says by its sequence which it is.
        for block in &blocks {
            assert!((block.first..).zip(&block.records).all(|(at, held)| *held == record(at)));
        }
        (blocks, reader.received(), troubles)
    }

    #[test]
    fn a_file_without_packets_has_both_ends() {
        let disk = Disk::of(1 << 20);
        let report = recorder(&disk, 4).finish(|| HEADER);
        assert_eq!((report.kept, report.lost, report.error), (0, 0, None));
        let (blocks, received, troubles) = read(&disk);
        assert!(blocks.is_empty() && troubles.is_empty());
        assert_eq!(received, Some(0));
    }

    #[test]
    fn a_disk_that_stands_costs_whole_blocks_and_they_are_counted() {
        let disk = Disk::of(1 << 30);
        let mut recorder = recorder(&disk, 2);
        let block = MOST_RECORDS as u64;
        add(&mut recorder, 0..block);
        disk.stand(true);
        add(&mut recorder, block..20 * block);
        disk.stand(false);
        add(&mut recorder, 20 * block..20 * block + 7);
        let report = recorder.finish(|| HEADER);
        // It may not have taken any of those before it stood; one is with the writer, two wait.
        assert!(report.lost >= 15 * block && report.lost % block <= 7, "{report:?}");
        assert_eq!((report.kept + report.lost, report.too_slow), (20 * block + 7, report.lost));
        let (blocks, received, troubles) = read(&disk);
        assert!(troubles.is_empty(), "{troubles:?}");
        assert_eq!(blocks.iter().map(|block| block.records.len() as u64).sum::<u64>(), report.kept);
        assert_eq!(received, Some(20 * block + 7));
        assert_eq!(report.bytes, disk.bytes().len() as u64);
    }

    #[test]
    fn a_block_goes_after_a_second() {
        let disk = Disk::of(1 << 20);
        let mut recorder = recorder(&disk, 4);
        recorder.tick(u64::MAX, || HEADER);
        add(&mut recorder, 0..3);
        recorder.tick(monotonic_ns(), || HEADER);
        assert_eq!(recorder.count, 3);
        recorder.tick(monotonic_ns() + 900_000_000, || HEADER);
        assert_eq!(recorder.count, 0);
        add(&mut recorder, 3..4);
        let _ = recorder.finish(|| HEADER);
        let sizes = read(&disk).0.iter().map(|block| block.records.len()).collect::<Vec<_>>();
        assert_eq!(sizes, [3, 1]);
    }

    proptest! {
        /// Whole blocks are kept, the rest is counted.
        #[test]
        fn a_full_disk_keeps_what_was_written(
            size in FILE_HEADER..20_000, counts in prop::collection::vec(1_u64..100, 1..10)
        ) {
            let disk = Disk::of(size);
            let mut recorder = recorder(&disk, 100);
            let mut next = 0;
            for count in counts {
                add(&mut recorder, next..next + count);
                recorder.tick(u64::MAX, || HEADER);
                next += count;
            }
            let report = recorder.finish(|| HEADER);
            prop_assert_eq!(report.kept + report.lost, next);
            prop_assert_eq!(report.too_slow, 0);
            let (blocks, received, troubles) = read(&disk);
            let held = blocks.iter().map(|block| block.records.len() as u64).sum::<u64>();
            prop_assert_eq!((held, report.bytes), (report.kept, disk.bytes().len() as u64));
            if let Some(error) = report.error {
                prop_assert!(error.contains("No space left"), "{}", error);
                prop_assert!(matches!(troubles[..], [Trouble::NoEnd]), "{:?}", troubles);
            } else {
                prop_assert_eq!((report.lost, received), (0, Some(next)));
            }
        }
    }
}
