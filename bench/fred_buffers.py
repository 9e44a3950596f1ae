#!/usr/bin/env python3
"""What the buffers of FRED's switches pass, against the latency of a switch: as one JSON object.

    python3 bench/fred_buffers.py --pleach build/release/pleach [--check]

An all_reduce of two NPUs under one switch of fred:D, packet by packet, for every latency of the
switch and every buffer of a port of 600 GB/s: the share of the NPUs' 3 TB/s that it gets, and what
a buffer passes that holds so much in a round trip. A round trip is two links of 20 ns, the switch,
and a packet. With --check the exit status is 1 where the two are more than 2 % apart.
"""
import argparse
import json
import subprocess
import sys

LATENCIES_NS = [0, 10, 20, 40, 80, 160, 320]
BUFFERS_KIB = [12, 24, 36, 48, 72, 96, 192]
SIZE_BYTES = 16_384_000  # many times the largest buffer
PACKET_BYTES, HEADER_BYTES = 4096, 6
PORTS, BYTES_PER_NS, LINKS_NS = 5, 3000, 40
LIMIT = 0.02


def simulated_share(pleach, latency_ns, buffer_kib):
    """Of the NPUs' rate, start and end left out."""
    command = [pleach, "simulate", "--topology", f"fred:D,switch_latency={latency_ns}ns",
               "--algorithm", "in_switch", "--group", "0,1", "--size", str(SIZE_BYTES), "--model",
               f"flit,router=fred,ack_every=0,data_buffer={buffer_kib}KiB", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    time_ns = json.loads(done.stdout)["time_ps"] / 1000 - LINKS_NS - latency_ns
    return SIZE_BYTES / time_ns / BYTES_PER_NS


def expected_share(latency_ns, buffer_kib):
    """What the buffer holds in a round trip, at most the link's rate without its headers."""
    packet_ns = (PACKET_BYTES + HEADER_BYTES) / BYTES_PER_NS
    held = PORTS * (buffer_kib * 1024 // PACKET_BYTES)
    round_trip_ns = max(LINKS_NS + latency_ns + packet_ns, held * packet_ns)
    return held * PACKET_BYTES / round_trip_ns / BYTES_PER_NS


def main():
    """Prints the object."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pleach", required=True, help="the binary")
    parser.add_argument("--check", action="store_true", help="exit 1 where they differ")
    options = parser.parse_args()
    rows, worst = [], 0.0
    for latency_ns in LATENCIES_NS:
        for buffer_kib in BUFFERS_KIB:
            share = simulated_share(options.pleach, latency_ns, buffer_kib)
            expected = expected_share(latency_ns, buffer_kib)
            worst = max(worst, abs(share / expected - 1))
            rows.append({"switch_latency_ns": latency_ns, "data_buffer_kib": buffer_kib,
                         "share": round(share, 4), "expected": round(expected, 4)})
    print(json.dumps({"rows": rows, "worst": round(worst, 4), "limit": LIMIT}))
    return 1 if options.check and worst > LIMIT else 0


if __name__ == "__main__":
    sys.exit(main())
