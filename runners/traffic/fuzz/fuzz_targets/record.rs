// SPDX-License-Identifier: GPL-2.0-or-later
//! Whatever befalls a file of records, each block that is read is one that was written, in order; what
//! is whole is read, and what is not is told. Files that nobody wrote are read without harm.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use skblab_traffic::header::Clock;
use skblab_traffic::record::{
    BLOCK_HEADER, Block, FILE_HEADER, FileHeader, RECORD, Reader, Record, Trouble, block_header,
};

/// What befalls a file. Of a block, no more than four bytes in a row are wrong: that CRC-32 finds.
#[derive(Arbitrary, Debug)]
enum Fate {
    None,
    Cut(u16),
    Wrong(u16, [u8; 4]),
    /// What stands behind its end.
    More(Vec<u8>),
    /// Some bytes are missing in the middle.
    Gap(u16, u16),
}

#[derive(Arbitrary, Debug)]
enum Input {
    Written {
        blocks: Vec<(u8, Vec<[u8; RECORD]>)>,
        fate: Fate,
    },
    Anything(Vec<u8>),
    AfterHeader(Vec<u8>),
    /// A block whose checksums are right, whatever the rest is.
    Sealed {
        first: u64,
        records: Vec<u8>,
        tail: Vec<u8>,
    },
}

const HEADER: FileHeader = FileHeader {
    begun_ns: 1,
    transmission: Some(2),
    sender_clock: Some(Clock::Monotonic),
    receiver_clock: Some(Clock::Realtime),
    one_clock: false,
    round_trip: false,
};

type Found = (Vec<Block>, Vec<Trouble>, Option<u64>);

fn read(file: &[u8]) -> Option<Found> {
    let mut reader = Reader::new(file).ok()?;
    let (mut blocks, mut troubles) = (Vec::new(), Vec::new());
    for item in reader.by_ref() {
        match item {
            Ok(block) => blocks.push(block),
            Err(trouble) => troubles.push(trouble),
        }
    }
    assert!(reader.next().is_none());
    let held = blocks.iter().map(|block| BLOCK_HEADER + (block.records.len() * RECORD));
    let damaged = troubles.iter().map(|trouble| match *trouble {
        Trouble::Damaged { bytes, .. } => usize::try_from(bytes).unwrap(),
        _ => 0,
    });
    let end = reader.received().map_or(0, |_| BLOCK_HEADER);
    let known = FILE_HEADER + end + held.sum::<usize>() + damaged.sum::<usize>();
    // No byte of a file is left out without a word, but those of a block that is cut.
    let cut = troubles.iter().any(|trouble| matches!(trouble, Trouble::Cut { .. }));
    assert!(if cut { known < file.len() } else { known == file.len() });
    assert!(reader.received().is_some() || !troubles.is_empty());
    Some((blocks, troubles, reader.received()))
}

fuzz_target!(|input: Input| {
    let (blocks, fate) = match input {
        Input::Written { blocks, fate } => (blocks, fate),
        Input::Anything(bytes) => {
            read(&bytes);
            return;
        }
        Input::AfterHeader(bytes) => {
            read(&[&HEADER.to_bytes()[..], &bytes].concat()).expect("the header is whole");
            return;
        }
        Input::Sealed { first, records, tail } => {
            let head = block_header(first, &records);
            let file = [&HEADER.to_bytes()[..], &head, &records, &tail].concat();
            read(&file).expect("the header is whole");
            return;
        }
    };
    let mut file = HEADER.to_bytes().to_vec();
    let mut ends = vec![file.len()];
    let mut next = 0;
    let mut written = Vec::new();
    for (lost, records) in blocks.iter().filter(|(_, records)| !records.is_empty()) {
        let first = next + u64::from(*lost);
        next = first + records.len() as u64;
        file.extend(block_header(first, records.as_flattened()));
        file.extend(records.as_flattened());
        ends.push(file.len());
        written.push(Block { first, records: records.iter().map(Record::from_bytes).collect() });
    }
    file.extend(block_header(next, &[]));
    ends.push(file.len());
    let place = |at: u16, file: &[u8]| usize::from(at) % file.len();
    match fate {
        Fate::None => {
            let (found, troubles, received) = read(&file).expect("it is whole");
            assert!(found == written && troubles.is_empty() && received == Some(next));
        }
        Fate::Cut(at) => {
            file.truncate(place(at, &file));
            let Some((found, troubles, received)) = read(&file) else {
                assert!(file.len() < FILE_HEADER);
                return;
            };
            let whole = ends.iter().filter(|&&end| end <= file.len()).count() - 1;
            assert!(found == written[..whole] && troubles.len() == 1 && received.is_none());
        }
        Fate::Wrong(at, flips) => {
            let at = place(at, &file);
            let before = file.clone();
            for (byte, flip) in file[at..].iter_mut().zip(flips) {
                *byte ^= flip;
            }
            let first = (0..file.len()).find(|&at| file[at] != before[at]);
            let last = (0..file.len()).rfind(|&at| file[at] != before[at]);
            let Some((first, last)) = first.zip(last) else { return };
            let Some((found, troubles, _)) = read(&file) else {
                assert!(first < FILE_HEADER);
                return;
            };
            assert!(first >= FILE_HEADER && !troubles.is_empty());
            // Of the blocks, those stay that it did not touch.
            let touched = |at: usize| ends[at] <= last && first < ends[at + 1];
            let rest = (0..written.len()).filter(|&at| !touched(at)).map(|at| &written[at]);
            assert!(found.iter().eq(rest));
        }
        Fate::More(bytes) => {
            file.extend(&bytes);
            let (found, troubles, received) = read(&file).expect("it is whole");
            assert!(found == written && received == Some(next));
            assert_eq!(troubles.len(), usize::from(!bytes.is_empty()));
        }
        Fate::Gap(at, bytes) => {
            let at = place(at, &file).max(FILE_HEADER);
            let to = file.len().min(at + usize::from(bytes));
            file.drain(at.min(to)..to);
            let (found, ..) = read(&file).expect("the header is whole");
            assert!(found.windows(2).all(|two| two[0].first < two[1].first));
            assert!(found.iter().all(|block| written.contains(block)));
        }
    }
});
