#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""An example of another tester: sends what skblab asks for by `skblab-traffic send --device`."""

import json
import subprocess
import sys

asked = json.load(sys.stdin)
if asked["schema"] != "skblab.sender-request/1":
    sys.exit(f"{asked['schema']}: expected skblab.sender-request/1")
program = sys.argv[1] if len(sys.argv) > 1 else "skblab-traffic"

to = f"[{asked['destination']}]" if asked["family"] == 6 else asked["destination"]
sizes = [f"{frame['bytes']}*{frame['weight']}" for frame in asked["frames"]]
options = {
    "--device": asked["device"],
    "--mac": asked["destination_mac"],
    "--vlan": asked["vlan"],
    "--from": asked["source"],
    "--to": f"{to}:{asked['destination_port']}",
    "--source-port": asked["source_port"],
    "--flows": asked["flows"],
    "--frame": f"mix:{','.join(sizes)}" if sizes[1:] else asked["frames"][0]["bytes"],
    "--count": asked["packets"],
    "--rate": asked["rate"],
    "--seconds": asked["seconds"],
    "--seed": asked["seed"],
}
if asked["destinations"]:
    options["--to-range"] = f"{asked['destinations']['first']}-{asked['destinations']['last']}"
if asked["then"]:
    options["--then"], options["--after"] = asked["then"]["rate"], asked["then"]["after"]
words = [str(word) for pair in options.items() if pair[1] is not None for word in pair]
if asked["timed"]:
    words.append("--queue")

# What it says on standard error, skblab shows if this ends with another status than 0.
done = subprocess.run([program, "send", *words], stdout=subprocess.PIPE, check=False)
if done.returncode:
    sys.exit(done.returncode)
said = json.loads(done.stdout)
answer = {
    "schema": "skblab.sender/1",
    "sent": said["sent"],
    "refused": said["unsent"],
    "seconds": said["seconds"],
}
if said["step"]:
    answer["step"] = {"packet": said["step"]["sequence"], "seconds": said["step"]["at_ns"] / 1e9}
json.dump(answer, sys.stdout)
