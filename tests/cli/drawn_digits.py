"""drawn_digits.py DIR TRAIN TEST - writes a digit set in MNIST's four files: a 5 x 7 font, placed, scaled, tilted and
noisy by a fixed seed. The images are compressed, the labels are not: both are read."""
import gzip
import random
import struct
import sys

FONT = ["0e11131519110e", "040c040404040e", "0e11010204081f", "1f02040201110e", "02060a121f0202",
        "1f101e0101110e", "0608101e11110e", "1f010204080808", "0e11110e11110e", "0e11110f01020c"]
SIDE = 28


def draw(digit, rng):
    rows = [int(FONT[digit][2 * i:2 * i + 2], 16) for i in range(7)]
    scale, tilt = rng.uniform(2.4, 3.2), rng.uniform(-0.2, 0.2)
    left, top = rng.uniform(4, 9), rng.uniform(2, 6)
    pixels = bytearray()
    for y in range(SIDE):
        for x in range(SIDE):
            r, c = int((y - top) // scale), int((x - left - tilt * (y - 14)) // scale)
            on = 0 <= r < 7 and 0 <= c < 5 and rows[r] >> (4 - c) & 1
            pixels.append(max(0, min(255, int((200 if on else 10) + rng.gauss(0, 30)))))
    return bytes(pixels)


def write(folder, name, n, rng):
    labels = bytes(rng.randrange(10) for _ in range(n))
    images = b"".join(draw(d, rng) for d in labels)
    with gzip.open(f"{folder}/{name}-images-idx3-ubyte.gz", "wb") as f:
        f.write(struct.pack(">iiii", 0x803, n, SIDE, SIDE) + images)
    with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">ii", 0x801, n) + labels)


if __name__ == "__main__":
    rng = random.Random(5)
    write(sys.argv[1], "train", int(sys.argv[2]), rng)
    write(sys.argv[1], "t10k", int(sys.argv[3]), rng)
