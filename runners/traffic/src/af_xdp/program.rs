// SPDX-License-Identifier: GPL-2.0-or-later
//! The XDP program that picks packets: of UDP to a port, and to an address if there is one.
//!
//! It writes the time (`CLOCK_TAI`) into the eight bytes before the frame, and gives the frame to the
//! socket of its queue. Everything else goes on to the stack: other traffic of the device is not
//! touched. Packets with IP options or extension headers, and fragments, are not ours.

use std::net::{IpAddr, SocketAddr};

/// An instruction of BPF, `struct bpf_insn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Insn {
    code: u8,
    /// The register that is written (the lower four bits), and the one that is read.
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Of `bpf.h`: classes, sizes, modes and operations, as far as they are used.
const LOAD_BYTE: u8 = 0x71;
const LOAD_HALF: u8 = 0x69;
const LOAD_WORD: u8 = 0x61;
const STORE_DOUBLE: u8 = 0x7b;
const MOVE: u8 = 0xbf;
const MOVE_IMMEDIATE: u8 = 0xb7;
const ADD_IMMEDIATE: u8 = 0x07;
const AND_IMMEDIATE: u8 = 0x57;
const LOAD_MAP: u8 = 0x18;
const JUMP: u8 = 0x05;
const JUMP_GREATER: u8 = 0x2d;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_NOT_EQUAL: u8 = 0x55;
/// The same, of the lower 32 bits.
const JUMP_NOT_EQUAL_WORD: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
const PSEUDO_MAP_FD: u8 = 1;
/// Numbers of helpers.
const REDIRECT_MAP: i32 = 51;
const ADJUST_META: i32 = 54;
const KTIME_GET_TAI_NS: i32 = 208;
/// What the program returns, and `bpf_redirect_map()` if the queue has no socket.
const XDP_PASS: i32 = 2;
/// Places in `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

/// Registers: R0 has results, R1 to R5 arguments, and R6 to R9 outlive calls.
type Register = u8;
const R0: Register = 0;
const R1: Register = 1;
const R2: Register = 2;
const R3: Register = 3;
const R4: Register = 4;
const R5: Register = 5;
const CONTEXT: Register = 6;
const TIME: Register = 7;

const ETHERNET: i16 = 14;
const TAGGED: i16 = 18;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const UDP: i32 = 17;
/// Version 4, and a header without options.
const PLAIN_IPV4: i32 = 0x45;
/// More fragments, or not the first one.
const FRAGMENT: u16 = 0x3fff;

/// The program; `map` is the descriptor of the map of sockets.
pub(super) fn program(bind: SocketAddr, map: i32) -> Vec<Insn> {
    let mut made = Assembler::default();
    made.add(MOVE, CONTEXT, R1, 0, 0);
    made.add(LOAD_WORD, R2, CONTEXT, DATA, 0);
    made.add(LOAD_WORD, R3, CONTEXT, DATA_END, 0);
    made.holds(ETHERNET);
    made.add(LOAD_HALF, R5, R2, ETHERNET - 2, 0);
    made.jump(JUMP_EQUAL, R5, on_wire(VLAN), Label::Tagged);
    made.network(bind, ETHERNET);
    made.here(Label::Tagged);
    made.holds(TAGGED);
    made.add(LOAD_HALF, R5, R2, TAGGED - 2, 0);
    made.network(bind, TAGGED);
    made.here(Label::Ours);
    made.add(CALL, 0, 0, 0, KTIME_GET_TAI_NS);
    made.add(MOVE, TIME, R0, 0, 0);
    made.add(MOVE, R1, CONTEXT, 0, 0);
    made.add(MOVE_IMMEDIATE, R2, 0, 0, -8);
    made.add(CALL, 0, 0, 0, ADJUST_META);
    // A driver that leaves no room for it: the packet has no time.
    made.jump(JUMP_NOT_EQUAL, R0, 0, Label::Give);
    made.add(LOAD_WORD, R2, CONTEXT, DATA, 0);
    made.add(LOAD_WORD, R3, CONTEXT, DATA_META, 0);
    made.add(MOVE, R4, R3, 0, 0);
    made.add(ADD_IMMEDIATE, R4, 0, 0, 8);
    made.branch(JUMP_GREATER, R4, R2, 0, Label::Give);
    made.add(STORE_DOUBLE, R3, TIME, 0, 0);
    made.here(Label::Give);
    made.add(LOAD_MAP, R1, PSEUDO_MAP_FD, 0, map);
    made.add(0, 0, 0, 0, 0);
    made.add(LOAD_WORD, R2, CONTEXT, QUEUE, 0);
    made.add(MOVE_IMMEDIATE, R3, 0, 0, XDP_PASS);
    made.add(CALL, 0, 0, 0, REDIRECT_MAP);
    made.add(EXIT, 0, 0, 0, 0);
    made.here(Label::Pass);
    made.add(MOVE_IMMEDIATE, R0, 0, 0, XDP_PASS);
    made.add(EXIT, 0, 0, 0, 0);
    made.whole()
}

/// Where jumps go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Tagged,
    Ours,
    Give,
    Pass,
}

#[derive(Default)]
struct Assembler {
    made: Vec<Insn>,
    /// Jumps, and where they go.
    jumps: Vec<(usize, Label)>,
    labels: Vec<(Label, usize)>,
}

impl Assembler {
    fn add(&mut self, code: u8, to: Register, from: Register, offset: i16, immediate: i32) {
        self.made.push(Insn { code, registers: (from << 4) | to, offset, immediate });
    }

    /// Jump if a register compares so with a number.
    fn jump(&mut self, code: u8, register: Register, with: i32, label: Label) {
        self.branch(code, register, 0, with, label);
    }

    fn branch(&mut self, code: u8, to: Register, from: Register, immediate: i32, label: Label) {
        self.jumps.push((self.made.len(), label));
        self.add(code, to, from, 0, immediate);
    }

    fn here(&mut self, label: Label) {
        self.labels.push((label, self.made.len()));
    }

    /// Pass what is shorter than so many bytes; R2 is the frame, R3 its end.
    fn holds(&mut self, bytes: i16) {
        self.add(MOVE, R4, R2, 0, 0);
        self.add(ADD_IMMEDIATE, R4, 0, 0, bytes.into());
        self.branch(JUMP_GREATER, R4, R3, 0, Label::Pass);
    }

    /// Look at the IP header, which begins at a byte; R5 has its Ethernet type.
    fn network(&mut self, bind: SocketAddr, at: i16) {
        let (kind, header, protocol, address) = match bind {
            SocketAddr::V4(_) => (IPV4, 20, 9, 16),
            SocketAddr::V6(_) => (IPV6, 40, 6, 24),
        };
        self.jump(JUMP_NOT_EQUAL, R5, on_wire(kind), Label::Pass);
        self.holds(at + header + 8);
        if bind.is_ipv4() {
            self.add(LOAD_BYTE, R5, R2, at, 0);
            self.jump(JUMP_NOT_EQUAL, R5, PLAIN_IPV4, Label::Pass);
            self.add(LOAD_HALF, R5, R2, at + 6, 0);
            self.add(AND_IMMEDIATE, R5, 0, 0, on_wire(FRAGMENT));
            self.jump(JUMP_NOT_EQUAL, R5, 0, Label::Pass);
        }
        self.add(LOAD_BYTE, R5, R2, at + protocol, 0);
        self.jump(JUMP_NOT_EQUAL, R5, UDP, Label::Pass);
        for (word, place) in words(bind.ip()).into_iter().zip(0_i16..) {
            self.add(LOAD_WORD, R5, R2, at + address + 4 * place, 0);
            self.jump(JUMP_NOT_EQUAL_WORD, R5, word, Label::Pass);
        }
        self.add(LOAD_HALF, R5, R2, at + header + 2, 0);
        self.jump(JUMP_NOT_EQUAL, R5, on_wire(bind.port()), Label::Pass);
        self.branch(JUMP, 0, 0, 0, Label::Ours);
    }

    /// The instructions, with all jumps.
    fn whole(mut self) -> Vec<Insn> {
        for (at, label) in self.jumps {
            let to = self.labels.iter().find(|(one, _)| *one == label).map_or(at, |(_, to)| *to);
            self.made[at].offset = i16::try_from(to - at - 1).expect("a short program");
        }
        self.made
    }
}

/// Two bytes as a load of this machine has them.
fn on_wire(number: u16) -> i32 {
    number.to_be().into()
}

/// An address in words as loads of this machine have them; none if any address will do.
fn words(address: IpAddr) -> Vec<i32> {
    let bytes = match address {
        any if any.is_unspecified() => Vec::new(),
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    let word = |four: &[u8]| i32::from_ne_bytes([four[0], four[1], four[2], four[3]]);
    bytes.chunks_exact(4).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program says of a frame: whether it is ours. Loads beyond the frame are a fault.
    fn run(program: &[Insn], frame: &[u8]) -> bool {
        let mut registers = [0_i64; 11];
        let (data, end) = (1_i64 << 32, (1_i64 << 32) + i64::try_from(frame.len()).unwrap());
        let load = |address: i64, bytes: usize| {
            let at = usize::try_from(address - data).unwrap();
            let mut value = [0; 8];
            value[..bytes].copy_from_slice(&frame[at..at + bytes]);
            i64::from_ne_bytes(value)
        };
        let mut at = 0;
        loop {
            let Insn { code, registers: both, offset, immediate } = program[at];
            let (to, from) = (usize::from(both & 15), usize::from(both >> 4));
            at += 1;
            let place = registers[from] + i64::from(offset);
            let mut jumps = false;
            match code {
                LOAD_WORD if from == usize::from(CONTEXT) => {
                    registers[to] = if offset == DATA { data } else { end };
                }
                LOAD_BYTE => registers[to] = load(place, 1),
                LOAD_HALF => registers[to] = load(place, 2),
                LOAD_WORD => registers[to] = load(place, 4),
                MOVE => registers[to] = registers[from],
                MOVE_IMMEDIATE => registers[to] = immediate.into(),
                ADD_IMMEDIATE => registers[to] += i64::from(immediate),
                AND_IMMEDIATE => registers[to] &= i64::from(immediate),
                JUMP => jumps = true,
                JUMP_GREATER => jumps = registers[to] > registers[from],
                JUMP_EQUAL => jumps = registers[to] == i64::from(immediate),
                JUMP_NOT_EQUAL => jumps = registers[to] != i64::from(immediate),
                JUMP_NOT_EQUAL_WORD => {
                    jumps = registers[to].to_le_bytes()[..4] != immediate.to_le_bytes();
                }
                // What comes then has no branch that passes.
                CALL => return true,
                EXIT => return i32::try_from(registers[0]).unwrap() != XDP_PASS,
                _ => panic!("instruction {code:#x}"),
            }
            if jumps {
                at += usize::try_from(offset).unwrap();
            }
        }
    }

    fn udp(port: u16) -> Vec<u8> {
        [&[0x12, 0x34][..], &port.to_be_bytes(), &[0, 24, 0, 0], &[0; 16]].concat()
    }

    fn ipv4(port: u16) -> Vec<u8> {
        let head = [0x45, 0, 0, 44, 0, 0, 0x40, 0, 64, 17, 0, 0, 198, 18, 0, 1, 198, 18, 0, 2];
        [&head[..], &udp(port)].concat()
    }

    fn ipv6(port: u16) -> Vec<u8> {
        let mut head = vec![0x60, 0, 0, 0, 0, 24, 17, 64];
        for last in [1, 2] {
            head.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]);
        }
        [head, udp(port)].concat()
    }

    fn framed(types: &[u16], packet: &[u8]) -> Vec<u8> {
        let types = types.iter().flat_map(|kind| kind.to_be_bytes()).collect::<Vec<_>>();
        [&[2; 12][..], &types, packet].concat()
    }

    #[test]
    fn only_packets_to_the_port_and_the_address_are_ours() {
        for (bind, kind, packet) in [
            ("198.18.0.2:5000", IPV4, ipv4(5000)),
            ("0.0.0.0:5000", IPV4, ipv4(5000)),
            ("[2001:db8::2]:5000", IPV6, ipv6(5000)),
            ("[::]:5000", IPV6, ipv6(5000)),
        ] {
            let program = program(bind.parse().unwrap(), 3);
            assert!(run(&program, &framed(&[kind], &packet)), "{bind}");
            assert!(run(&program, &framed(&[VLAN, 7, kind], &packet)), "{bind}, with a tag");
            // Another protocol above Ethernet, and two tags.
            assert!(!run(&program, &framed(&[0x0806], &packet)), "{bind}");
            assert!(!run(&program, &framed(&[VLAN, 7, VLAN, 8, kind], &packet)), "{bind}");
            // A frame that ends before its payload, whose header is not whole.
            for bytes in 0..framed(&[kind], &packet).len() - 16 {
                assert!(!run(&program, &framed(&[kind], &packet)[..bytes]), "{bind}, {bytes}");
            }
        }
    }

    #[test]
    fn what_is_for_others_goes_to_the_stack() {
        let ours = |bind: &str, frame: &[u8]| run(&program(bind.parse().unwrap(), 3), frame);
        assert!(!ours("198.18.0.2:5001", &framed(&[IPV4], &ipv4(5000))));
        assert!(!ours("198.18.0.3:5000", &framed(&[IPV4], &ipv4(5000))));
        assert!(!ours("[2001:db8::3]:5000", &framed(&[IPV6], &ipv6(5000))));
        assert!(!ours("[::]:5000", &framed(&[IPV4], &ipv4(5000))));
        assert!(!ours("0.0.0.0:5000", &framed(&[IPV6], &ipv6(5000))));
        for (at, byte) in [(0, 0x46), (6, 0x20), (7, 1), (9, 6)] {
            let mut packet = ipv4(5000);
            packet[at] = byte;
            assert!(!ours("0.0.0.0:5000", &framed(&[IPV4], &packet)), "byte {at}");
        }
        let mut packet = ipv6(5000);
        packet[6] = 58;
        assert!(!ours("[::]:5000", &framed(&[IPV6], &packet)));
    }
}
