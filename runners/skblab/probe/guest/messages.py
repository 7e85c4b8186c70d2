# SPDX-License-Identifier: GPL-2.0-or-later
"""Messages of one size over one TCP or SCTP connection, and what became of them; for a guest.

messages.py receive PROTOCOL ADDRESS PORT BYTES                  until the sender closes
messages.py send    PROTOCOL ADDRESS PORT BYTES COUNT RATE       RATE a second; 0: at once

Prints one JSON object: messages sent or received, whole ones only, and seconds. Exit code 1 if the
receiver got a message that was cut.
"""

from __future__ import annotations

import json
import socket
import sys
import time

PROTOCOLS = {"tcp": socket.IPPROTO_TCP, "sctp": 132}
# Both have it, under their own numbers.
NODELAY = {"tcp": 1, "sctp": 3}
CONNECT_SECONDS = 30


def _socket(protocol: str, address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM, PROTOCOLS[protocol])
    made.setsockopt(PROTOCOLS[protocol], NODELAY[protocol], 1)
    return made


def receive(protocol: str, address: str, port: int, size: int) -> dict[str, float]:
    """Take messages until the sender closes."""
    with _socket(protocol, address) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((address, port))
        listening.listen(1)
        sys.stderr.write("ready\n")
        sys.stderr.flush()
        connection, _ = listening.accept()
    count, buffer = 0, bytearray(size)
    flags = socket.MSG_WAITALL if protocol == "tcp" else 0
    with connection:
        begun = time.monotonic()
        while got := connection.recv_into(buffer, size, flags):
            if got != size:
                sys.exit(f"messages.py: message {count + 1} has {got} of {size} bytes")
            count += 1
        return {"received": count, "seconds": time.monotonic() - begun}


def send(
    protocol: str, address: str, port: int, size: int, count: int, rate: float
) -> dict[str, float]:
    """Send messages, evenly spaced."""
    with _socket(protocol, address) as connection:
        connection.settimeout(CONNECT_SECONDS)
        connection.connect((address, port))
        message = bytes(size)
        begun = time.monotonic()
        for number in range(count):
            if rate:
                while (wait := begun + number / rate - time.monotonic()) > 0:
                    time.sleep(wait)
            connection.sendall(message)
        return {"sent": count, "seconds": time.monotonic() - begun}


def main() -> None:
    """Do as the command line says."""
    what, protocol, address, *numbers = sys.argv[1:]
    port, size = int(numbers[0]), int(numbers[1])
    if what == "receive":
        found = receive(protocol, address, port, size)
    else:
        found = send(protocol, address, port, size, int(numbers[2]), float(numbers[3]))
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
