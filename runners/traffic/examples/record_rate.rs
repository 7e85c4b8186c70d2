// SPDX-License-Identifier: GPL-2.0-or-later
//! How many records a second reach a file: by none of them being lost at a rate, and read back.
//!
//!     cargo run --release -p skblab-traffic --example record_rate -- FILE RATE SECONDS
//!
//! Prints one line. RATE 0 is as fast as one thread can make records, where some are lost if the
//! file is slower.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use skblab_traffic::clock::{NS_PER_SEC, monotonic_ns};
use skblab_traffic::header::Clock;
use skblab_traffic::record::{FileHeader, Reader, Record};
use skblab_traffic::recorder::Recorder;

const HEADER: FileHeader = FileHeader {
    begun_ns: 0,
    transmission: Some(1),
    sender_clock: Some(Clock::Realtime),
    receiver_clock: Some(Clock::Realtime),
    one_clock: false,
    round_trip: false,
};
/// Records between two looks at the clock, as many as come by one call.
const BATCH: u64 = 64;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let parsed = match &arguments[..] {
        [file, rate, seconds] => rate.parse().ok().zip(seconds.parse().ok()).map(|two| (file, two)),
        _ => None,
    };
    let Some((file, (rate, seconds))) = parsed else {
        eprintln!("usage: record_rate FILE RATE SECONDS");
        return ExitCode::from(2);
    };
    match measure(Path::new(file), rate, seconds) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("record_rate: {error}");
            ExitCode::FAILURE
        }
    }
}

fn measure(path: &Path, rate: u64, seconds: u64) -> Result<String, Box<dyn std::error::Error>> {
    let mut recorder = Recorder::create(path)?;
    let begun_ns = monotonic_ns();
    let mut made = 0_u64;
    loop {
        let now_ns = monotonic_ns();
        let gone_ns = now_ns - begun_ns;
        if gone_ns >= seconds * NS_PER_SEC {
            break;
        }
        let due = u128::from(gone_ns) * u128::from(rate) / u128::from(NS_PER_SEC);
        if rate != 0 && u128::from(made) >= due {
            std::thread::yield_now();
            continue;
        }
        for _ in 0..BATCH {
            let record = Record {
                sequence: made,
                sent_ns: now_ns,
                received_ns: now_ns + made,
                flow: 0,
                payload_bytes: 18,
                flags: 0,
            };
            recorder.add(record, || HEADER);
            made += 1;
        }
    }
    let report = recorder.finish(|| HEADER);
    let took = (monotonic_ns() - begun_ns) as f64 / NS_PER_SEC as f64;

    let begun = Instant::now();
    let mut reader = Reader::new(File::open(path)?)?;
    let mut read = 0_u64;
    for block in reader.by_ref() {
        read += block?.records.len() as u64;
    }
    if read != report.kept || reader.received() != Some(made) {
        return Err(format!("{read} records are read of {} kept", report.kept).into());
    }
    Ok(format!(
        "{made} records in {took:.2} s: {:.0} kept a second, {} lost; {:.0} read a second",
        report.kept as f64 / took,
        report.lost,
        read as f64 / begun.elapsed().as_secs_f64(),
    ))
}
