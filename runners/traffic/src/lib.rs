// SPDX-License-Identifier: GPL-2.0-or-later
//! Traffic that accounts for every packet: a paced sender and a counting receiver of UDP, and TCP.
//!
//! [`header`] is what travels in each payload, [`sequence`] tells new, repeated and reordered
//! packets apart in fixed memory, [`generator`] draws intervals and sizes, [`pace`] keeps the
//! schedule, [`process`] has it run in real time, and [`send`] and [`receive`] join them to
//! sockets. Frames from a device are built by [`frame`], with [`destinations`] of a range, and sent
//! by a [`packet_socket`], or received by a [`packet_ring`], or both by [`af_xdp`]; [`device`] is what the kernel knows of
//! it, by [`netlink`]. With [`txtime`] a [`qdisc`] keeps the times of packets. [`many`] gives many
//! packets by one call, [`batch`] takes many by one, [`timing`] and [`distribution`] say what their
//! times were, and [`recorder`] keeps each of them in a file, of which [`record`] has the format
//! and a reader. [`departures`], [`arrival`] and [`errors`] are what several of the programs
//! account alike. [`echo`] sends packets back, [`round_trip`] sends to an echo and receives,
//! [`clock_offset`] compares clocks by a [`clock_probe`], and [`wakeup`] tells what the machine
//! itself adds. [`tcp`] has connections, requests and streams. Every result is a [`report`]
//! structure, printed as one JSON document.

pub mod af_xdp;
pub mod arrival;
pub mod batch;
pub mod clock;
pub mod clock_offset;
pub mod clock_probe;
pub mod departures;
pub mod destinations;
pub mod device;
pub mod distribution;
pub mod echo;
pub mod errors;
pub mod frame;
pub mod generator;
pub mod header;
pub mod many;
pub mod netlink;
pub mod pace;
pub mod packet_ring;
pub mod packet_socket;
pub mod process;
pub mod qdisc;
pub mod receive;
pub mod record;
pub mod recorder;
pub mod report;
pub mod round_trip;
pub mod send;
pub mod sequence;
pub mod socket;
pub mod tcp;
pub mod timing;
pub mod txtime;
pub mod wakeup;
