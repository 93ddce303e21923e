# test_leaks.py - covers python/levin/run.py: 1,000 runs in one process, without growth of memory, descriptors, threads.
# label: long
import gc
import os
import unittest

import levin
import scenes
from scenes import run


def resources():
    """(resident bytes, descriptors, threads) of this process."""
    gc.collect()
    with open("/proc/self/statm") as f:
        resident = int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return resident, len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))


class Leaks(unittest.TestCase):
    def rounds(self, n, warm, once):
        """Do it `warm` times, then up to n times in all: what grew meanwhile, for each."""
        for i in range(warm):
            once(i)
        before = at = resources()
        growth = []
        for i in range(warm, n):
            once(i)
            if (i - warm + 1) % ((n - warm) // 4) == 0:
                now = resources()
                growth.append(now[0] - at[0])
                at = now
        self.assertEqual(at[1], before[1], "descriptors")
        self.assertLessEqual(at[2], before[2] + 1, "threads")  # the kernel may still list the last one that was joined
        # The allocator takes a few megabytes from the system now and then; what is lost in each round grows in every quarter.
        self.assertLess(min(growth), max(64 << 10, 1024 * ((n - warm) // 4)), f"resident bytes: {growth}")

    def test_runs(self):
        def once(i):
            with run("one", trainer__fast_dev_run=1, trainer__max_steps=1, trainer__threads=2) as r:
                r.open()

        self.rounds(1000, 200, once)

    def test_runs_with_folders(self):
        def once(i):
            run("folder", overwrite=i > 0, trainer__max_steps=2, logger__tensorboard=True, trainer__threads=2).fit()

        self.rounds(40, 15, once)

    def test_failed_runs(self):
        def once(i):
            with self.assertRaises(levin.FaultError):
                run("none", data__path="none.txt").open()

        self.rounds(300, 100, once)

    def test_models(self):
        run("model").fit()

        def once(i):
            with levin.load("runs/model") as m:
                m.generate("the", 5)
                m.logits([1, 2, 3])
                m.parameters()

        self.rounds(60, 20, once)


scenes.main()
