# test_abi.py - covers python/levin/_abi.py: a C compiler sees the same structs in levin.h.
# label: user
import ctypes
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from levin import _abi

ROOT = Path(__file__).resolve().parents[2]


def structs():
    """{"levin_run_event": RunEvent, ...}"""
    found = {k: v for k, v in vars(_abi).items() if isinstance(v, type) and issubclass(v, ctypes.Structure) and v is not ctypes.Structure}
    return {"levin" + re.sub(r"([A-Z])", r"_\1", name).lower(): kind for name, kind in found.items()}


class Abi(unittest.TestCase):
    def test_offsets(self):
        compiler = os.environ.get("CC", "cc").split()
        if not shutil.which(compiler[0]):
            self.skipTest(f"no {compiler[0]}")
        lines = ["#include <stddef.h>", '#include "levin.h"', f"_Static_assert(LEVIN_ABI_VERSION == {_abi.ABI}, \"version\");"]
        for name, kind in structs().items():
            lines.append(f'_Static_assert(sizeof(struct {name}) == {ctypes.sizeof(kind)}, "{name}");')
            for field, _ in kind._fields_:
                at, size = getattr(kind, field).offset, getattr(kind, field).size
                lines.append(f'_Static_assert(offsetof(struct {name}, {field}) == {at}, "{name}.{field}");')
                lines.append(f'_Static_assert(sizeof(((struct {name} *)0)->{field}) == {size}, "{name}.{field}");')
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "offsets.c"
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            done = subprocess.run([*compiler, "-std=c11", "-fsyntax-only", "-I", str(ROOT / "include"), str(path)],
                                  capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(len(lines), 150)

    def test_sizes_come_first(self):
        for name, kind in structs().items():
            self.assertEqual(kind._fields_[0], ("size", ctypes.c_int64), name)

    def test_generated(self):
        subprocess.run([str(ROOT / "tools/make_levin_abi"), "--check"], check=True)


if __name__ == "__main__":
    unittest.main()
