// SPDX-License-Identifier: GPL-2.0-or-later
//! The record of a datagram that came, as every receiver begins and completes it.

use crate::batch::Datagram;
use crate::clock::realtime_ns;
use crate::record::{Record, flags};
use crate::sequence::Verdict;

/// Begin the record: when it came, and its size.
#[must_use]
pub fn begun(datagram: &Datagram) -> Record {
    let (received_ns, flags) = match datagram.stamp_ns {
        Some(stamp_ns) => (stamp_ns, 0),
        None => (realtime_ns(), flags::NOT_BY_KERNEL),
    };
    Record {
        received_ns,
        payload_bytes: u16::try_from(datagram.bytes).unwrap_or(u16::MAX),
        flags,
        ..Record::default()
    }
}

/// The flag of what the packet is, of which `highest` was the highest number before it.
#[must_use]
pub fn judged(verdict: Verdict, sequence: u64, highest: u64) -> u32 {
    match verdict {
        // The very first one has nothing above it.
        Verdict::New if sequence < highest => flags::REORDERED,
        Verdict::New => 0,
        Verdict::Duplicate => flags::DUPLICATE,
        Verdict::TooOld => flags::TOO_OLD,
        Verdict::Beyond => flags::BEYOND,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_says_whose_its_time_is() {
        let came = |stamp_ns| {
            let bytes = 1 << 20;
            begun(&Datagram { payload: &[], bytes, source: None, stamp_ns, drops: None })
        };
        let stamped = came(Some(7));
        assert_eq!((stamped.received_ns, stamped.flags), (7, 0));
        assert_eq!(stamped.payload_bytes, u16::MAX);
        let before_ns = realtime_ns();
        let ours = came(None);
        assert_eq!(ours.flags, flags::NOT_BY_KERNEL);
        assert!((before_ns..=realtime_ns()).contains(&ours.received_ns));
    }

    #[test]
    fn a_packet_below_the_highest_is_out_of_order() {
        assert_eq!(judged(Verdict::New, 4, 5), flags::REORDERED);
        assert_eq!(judged(Verdict::New, 0, 0), 0);
        assert_eq!(judged(Verdict::Duplicate, 4, 5), flags::DUPLICATE);
    }
}
