"""Arrays over the library's memory, and bf16, for which numpy has no type."""
from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


def from_memory(address: int | None, shape: tuple[int, ...], kind: Any, owner: Any = None) -> np.ndarray:
    """An array over memory of the library, without a copy. owner: lives as long as the array."""
    dtype = np.dtype(kind)
    n = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    if not n:
        return np.empty(shape, dtype)
    buffer = (ctypes.c_char * n).from_address(address)
    buffer.owner = owner  # the array's base is the buffer
    return np.frombuffer(buffer, dtype).reshape(shape)


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", _Device), ("ndim", ctypes.c_int32), ("dtype", _Type),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


_pointer = ctypes.PyDLL(None).PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class _Writable:
    """The memory of an array, also of a read-only one, which numpy does not export."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "data": (array.ctypes.data, False)}


class BFloat16Array:
    """An array of bf16: `bits` has the upper 16 bits of each fp32 as uint16, `float32()` is a copy for computing with
    numpy, and `torch.from_dlpack(a)` shares its memory."""

    def __init__(self, bits: np.ndarray) -> None:
        self.bits = bits

    @property
    def shape(self) -> tuple[int, ...]:
        return self.bits.shape

    def float32(self) -> np.ndarray:
        return (self.bits.astype(np.uint32) << 16).view(np.float32)

    __array__ = lambda self, dtype=None, copy=None: self.float32().astype(dtype or np.float32)  # noqa: E731

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)  # the processor

    def __dlpack__(self, *, copy: bool | None = None, **_: Any) -> Any:
        """The capsule that numpy makes of the bits, with the type bf16. numpy releases it, used or not."""
        capsule = np.asarray(_Writable(self.bits.copy() if copy else self.bits)).__dlpack__()
        _Tensor.from_address(_pointer(capsule, b"dltensor")).dtype = _Type(4, 16, 1)
        return capsule

    def __repr__(self) -> str:
        return f"BFloat16Array({self.float32()!r})"


def bfloat16(bits: np.ndarray) -> BFloat16Array:
    return BFloat16Array(bits)
