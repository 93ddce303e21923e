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


class _Managed(ctypes.Structure):
    pass


_DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = [("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _DELETER)]
_exported: dict[int, Any] = {}  # not yet released by consumers of DLPack


@_DELETER
def _delete(managed: Any) -> None:
    _exported.pop(ctypes.addressof(managed.contents), None)


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

    def __dlpack__(self, **_: Any) -> Any:
        n, bits = self.bits.ndim, self.bits
        shape = (ctypes.c_int64 * n)(*bits.shape)
        strides = (ctypes.c_int64 * n)(*(s // bits.itemsize for s in bits.strides))
        managed = _Managed(_Tensor(bits.ctypes.data, _Device(1, 0), n, _Type(4, 16, 1), shape, strides, 0), None, _delete)
        _exported[ctypes.addressof(managed)] = (managed, shape, strides, bits)
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(managed), b"dltensor", None)

    def __repr__(self) -> str:
        return f"BFloat16Array({self.float32()!r})"


def bfloat16(bits: np.ndarray) -> BFloat16Array:
    return BFloat16Array(bits)
