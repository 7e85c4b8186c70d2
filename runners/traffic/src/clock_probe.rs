// SPDX-License-Identifier: GPL-2.0-or-later
//! What a probe of another machine's clock has behind the [header](crate::header): the echo's times.
//!
//! 36 bytes, network byte order, of which the sender writes the first four and the echo the rest:
//!
//! | offset | bytes | field                                                                        |
//! | ------ | ----- | ---------------------------------------------------------------------------- |
//! | 16     | 4     | magic, `[clk`                                                                |
//! | 20     | 1     | 1: answered; 2: the kernel stamped the arrival; 4: the clock is synchronized |
//! | 21     | 3     | zero                                                                         |
//! | 24     | 8     | when it came, nanoseconds of the echo's `CLOCK_REALTIME`                     |
//! | 32     | 8     | when it was sent back, of the same clock                                     |
//! | 40     | 8     | how fast the kernel was told to run that clock: 10⁻⁹, signed                 |
//! | 48     | 4     | the largest error that the kernel knows of, microseconds                     |

use crate::header;

/// Bytes of header and probe.
pub const LEN: usize = header::LEN + 36;

const MAGIC: [u8; 4] = *b"[clk";
const ANSWERED: u8 = 1;
const BY_KERNEL: u8 = 2;
const SYNCHRONIZED: u8 = 4;

/// What the kernel says of its `CLOCK_REALTIME` (`adjtimex`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// A program keeps it right, such as chrony or ptp4l with phc2sys.
    pub synchronized: bool,
    /// The largest error that this program told the kernel, microseconds.
    pub max_error_us: u32,
    /// How much faster than by itself it is made to run, 10⁻⁹.
    pub frequency_ppb: i64,
}

/// What an echo tells of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When the probe came, nanoseconds of the echo's `CLOCK_REALTIME`.
    pub received_ns: u64,
    /// When it was sent back.
    pub sent_ns: u64,
    /// The kernel stamped the arrival; otherwise the echo did.
    pub by_kernel: bool,
    /// What is known of that clock.
    pub kept: Kept,
}

impl Kept {
    /// Ask the kernel.
    #[must_use]
    pub fn now() -> Self {
        // SAFETY: of this structure of the kernel's, whose members are numbers, all bytes zero is a
        // value; its `modes` of zero asks, and changes nothing.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the pointer is to a structure of the size that the call takes.
        if unsafe { libc::adjtimex(&raw mut timex) } < 0 {
            return Self::default();
        }
        Self {
            synchronized: timex.status & libc::STA_UNSYNC == 0,
            max_error_us: u32::try_from(timex.maxerror).unwrap_or(u32::MAX),
            frequency_ppb: frequency_ppb(timex.freq, timex.tick),
        }
    }
}

/// `freq` is in 2⁻¹⁶ of 10⁻⁶, and `tick` microseconds of what is 10 000 by itself.
fn frequency_ppb(freq: i64, tick: i64) -> i64 {
    freq * 1000 / 65536 + (tick - 10_000) * 100_000
}

/// Make of a payload with a header, and zeros behind it, a probe.
pub fn ask(payload: &mut [u8; LEN]) {
    payload[header::LEN..header::LEN + 4].copy_from_slice(&MAGIC);
}

/// Whether a payload, whose header is known, asks for the echo's times.
#[must_use]
pub fn asks(payload: &[u8]) -> bool {
    payload.len() >= LEN && payload[16..20] == MAGIC && payload[20] == 0
}

/// Write the echo's times into a payload that asks for them.
pub fn answer(payload: &mut [u8], answer: &Answer) {
    let flag = |set: bool, flag: u8| if set { flag } else { 0 };
    let Answer { received_ns, sent_ns, by_kernel, kept } = answer;
    payload[20] = ANSWERED | flag(*by_kernel, BY_KERNEL) | flag(kept.synchronized, SYNCHRONIZED);
    payload[24..32].copy_from_slice(&received_ns.to_be_bytes());
    payload[32..40].copy_from_slice(&sent_ns.to_be_bytes());
    payload[40..48].copy_from_slice(&kept.frequency_ppb.to_be_bytes());
    payload[48..52].copy_from_slice(&kept.max_error_us.to_be_bytes());
}

/// Read what an echo wrote; none if it wrote nothing.
#[must_use]
pub fn read(payload: &[u8]) -> Option<Answer> {
    let payload: &[u8; LEN] = payload.first_chunk()?;
    let flags = payload[20];
    if payload[16..20] != MAGIC || flags & ANSWERED == 0 {
        return None;
    }
    let kept = Kept {
        synchronized: flags & SYNCHRONIZED != 0,
        frequency_ppb: i64::from_be_bytes(field(payload, 40)?),
        max_error_us: u32::from_be_bytes(field(payload, 48)?),
    };
    Some(Answer {
        received_ns: u64::from_be_bytes(field(payload, 24)?),
        sent_ns: u64::from_be_bytes(field(payload, 32)?),
        by_kernel: flags & BY_KERNEL != 0,
        kept,
    })
}

fn field<const N: usize>(payload: &[u8], at: usize) -> Option<[u8; N]> {
    payload.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_speed_has_both_of_its_parts() {
        assert_eq!(frequency_ppb(0, 10_000), 0);
        // 1.5 ppm, and a tick that is a microsecond shorter.
        assert_eq!(frequency_ppb(3 << 15, 10_000), 1_500);
        assert_eq!(frequency_ppb(-3 << 15, 9_999), -101_500);
    }

    #[test]
    fn the_kernel_is_asked() {
        let kept = Kept::now();
        assert!(kept.frequency_ppb.abs() < 11_000_000, "{kept:?}");
    }

    #[test]
    fn only_a_probe_is_answered_and_only_once() {
        let mut payload = [0; LEN];
        assert!(!asks(&payload) && read(&payload).is_none());
        ask(&mut payload);
        assert!(asks(&payload) && read(&payload).is_none());
        assert!(!asks(&payload[..LEN - 1]));
        let told = Answer { received_ns: 1, sent_ns: 2, by_kernel: false, kept: Kept::default() };
        answer(&mut payload, &told);
        assert!(!asks(&payload));
        assert_eq!(read(&payload), Some(told));
        assert!(read(&payload[..LEN - 1]).is_none());
    }

    proptest! {
        #[test]
        fn written_is_read_back(
            received_ns: u64, sent_ns: u64, by_kernel: bool, synchronized: bool,
            max_error_us: u32, frequency_ppb: i64
        ) {
            let kept = Kept { synchronized, max_error_us, frequency_ppb };
            let told = Answer { received_ns, sent_ns, by_kernel, kept };
            let mut payload = [0; LEN + 7];
            ask(payload.first_chunk_mut().unwrap());
            answer(&mut payload, &told);
            prop_assert_eq!(read(&payload), Some(told));
            prop_assert_eq!(&payload[LEN..], &[0; 7]);
        }

        #[test]
        fn any_bytes_are_safe(payload: Vec<u8>) {
            let _ = (asks(&payload), read(&payload));
        }
    }
}
