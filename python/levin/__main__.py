"""python -m levin: runs the program of the package."""
import os
import sys

from . import _library
from .errors import Error

try:
    program = str(_library.find_program())
except Error as e:
    sys.exit(f"error: {e}")
os.execv(program, [program, *sys.argv[1:]])
