"""Settings: the keys of recipes from Python values, and their descriptions."""
from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from . import _library
from ._library import lib
from .errors import FaultError, InputError


class SettingInfo(NamedTuple):
    """The description of a key, as in `levin help options`."""

    key: str
    type: str  # int, float, pair, bool, choice, str, path, list, maps, time or amount
    default: str  # as in a recipe; "": not given
    help: str
    choices: tuple[str, ...]  # (): any value of the type
    min: float
    max: float
    fixed: bool  # must stay the same when a run continues


def describe() -> dict[str, SettingInfo]:
    """All keys, in the order of `levin help options`."""
    out, row = {}, _library.sized(_library.Setting)
    for i in range(lib.levin_settings_count()):
        _library.check(lib.levin_settings_describe(i, _library.byref(row)))
        choices: list[str] = []
        while row.choices and row.choices[len(choices)] is not None:
            choices.append(row.choices[len(choices)].decode())
        key = row.key.decode()
        out[key] = SettingInfo(key, row.type.decode(), row.default_value.decode(), row.help.decode(), tuple(choices),
                               row.min, row.max, bool(row.fixed))
    return out


def _in_map(key: str, value: Any) -> str:
    """A value within a map in YAML; strings are quoted because patterns like *.bias have another meaning there."""
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_in_map(key, v) for v in value) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else write_value(key, value)


def write_value(key: str, value: Any) -> str:
    """A Python value as written in a recipe."""
    if hasattr(value, "item") and not getattr(value, "ndim", 0):  # of numpy, torch or jax
        value = value.item()
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    if not getattr(value, "ndim", 0) and (hasattr(value, "__index__") or hasattr(value, "__float__")):
        return repr(int(value) if hasattr(value, "__index__") else float(value))
    if isinstance(value, (list, tuple)):  # in quotes a list's separators are refused, instead of dividing the name
        return "[" + ", ".join(f'"{v}"' if isinstance(v, str) and re.search(r"""^$|[][(){}\s,'"]""", v)
                               else write_value(key, v) for v in value) + "]"
    if isinstance(value, Mapping):  # in a list, for example optimizer.groups
        return "{" + ", ".join(f"{name}: {_in_map(key, v)}" for name, v in value.items()) + "}"
    raise InputError(f"{key} must be a number, a string, a bool or a list of these, not {type(value).__name__}")


def flatten(keys: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """{"optimizer": {"lr": 1e-3}, "trainer__max_steps": 10} as ("optimizer.lr", "0.001"), ... None values are skipped."""
    for name, value in keys.items():
        if not isinstance(name, str):
            raise InputError(f"keys must be strings like 'optimizer.lr', not {name!r}")
        key = prefix + name.replace("__", ".")
        if isinstance(value, Mapping):
            yield from flatten(value, key + ".")
        elif value is not None:
            yield key, write_value(key, value)


class Settings(_library.NotCopied, Mapping):
    """The settings of a run by key: `settings["optimizer.lr"]` is its text as in a recipe.

    `source(key)` is the origin of a value: "default", "program", "recipes/x.yaml:7", "LEVIN_OPTIMIZER_LR".
    """

    def __init__(self) -> None:
        self._p = lib.levin_settings_new()
        if not self._p:
            raise MemoryError("not enough memory for the settings")
        self._keys = tuple(describe())
        self._continues = ""  # the run whose settings these are

    def __del__(self, _free=lib.levin_settings_free) -> None:
        if getattr(self, "_p", None):
            _free(self._p)
            self._p = None

    def read(self, recipe: str | os.PathLike[str] | Mapping[str, Any] | None, resume: bool = False) -> None:
        """Set the keys of `levin.Run(recipe, resume=...)`: those of a recipe or, to continue a run, its own settings."""
        if recipe is None or isinstance(recipe, Mapping):
            self.environment()
            self.put(recipe or {})
            return
        if resume and "://" in os.fspath(recipe):
            raise InputError(f"the run '{os.fspath(recipe)}' is in a store: `levin train {os.fspath(recipe)} --resume` continues "
                             "it; here give the run's recipe, with that run_dir and resume=True")
        folder = find_run(recipe) if resume and not os.path.isfile(recipe) else None
        if folder:
            self.recipe(folder / "settings.yaml")
            self.put({"run_dir": str(folder)})
            self._continues = os.fspath(recipe)
            for key in self:
                variable = "LEVIN_" + key.replace(".", "_").upper()
                if os.environ.get(variable):
                    warnings.warn(f"{variable} is ignored, because a run continues with its own settings; give "
                                  f"{key.replace('.', '__')}= instead", stacklevel=3)
            return
        recipe = find_recipe(recipe)
        if not os.path.exists(recipe):
            raise InputError(f"there is no {'run or ' if resume else ''}recipe '{os.fspath(recipe)}'")
        if os.path.isdir(recipe):
            raise InputError(f"'{os.fspath(recipe)}' is a folder, not a recipe; resume=True continues a run's folder")
        self.recipe(recipe)
        self.environment()

    def recipe(self, path: str | os.PathLike[str]) -> None:
        """Set all keys of a YAML file."""
        _library.check(lib.levin_settings_recipe(self._p, _library.encode(path, "recipe")))

    def environment(self) -> None:
        """Set keys from environment variables such as LEVIN_OPTIMIZER_LR."""
        _library.check(lib.levin_settings_variables(self._p))

    def put(self, keys: Mapping[str, Any]) -> None:
        """Set keys; all errors are reported together."""
        wrong = []
        for key, value in flatten(keys):
            if key == "run_dir" and self._continues:
                raise InputError(f"'{self._continues}' is the run to continue, and run_dir names another folder; leave one out")
            if lib.levin_settings_put(self._p, _library.encode(key, "a key"), _library.encode(value, key)):
                wrong.append(_library.text(lib.levin_error_text()) or "")
        if wrong:
            raise InputError("\n".join(wrong))

    def check(self) -> None:
        """Derive values from others, and refuse contradictions."""
        _library.check(lib.levin_settings_check(self._p))

    def __getitem__(self, key: str) -> str:
        value = lib.levin_settings_get(self._p, _library.encode(key, "a key"))
        if value is None:
            raise KeyError(_library.text(lib.levin_error_text()))
        return value.decode("utf-8", "surrogateescape")

    def source(self, key: str) -> str:
        value = lib.levin_settings_source(self._p, _library.encode(key, "a key"))
        if value is None:
            raise KeyError(_library.text(lib.levin_error_text()))
        return value.decode("utf-8", "surrogateescape")

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        given = (f"{k}: {self[k]}" for k in self if self.source(k) not in ("default", ""))
        return "<levin settings\n  " + "\n  ".join(given) + ">"


def find_recipe(path: str | os.PathLike[str]) -> str | os.PathLike[str]:
    """Find recipes/NAME in the current folder, else among the recipes of levin; `Settings.source()` has its path."""
    if Path(path).parts[:1] == ("recipes",) and not os.path.exists(path):
        with contextlib.suppress(FaultError):  # the program is not installed
            folder = _library.find_program().parent.parent
            for place in (folder / "share/levin" / path, folder / path):
                if place.is_file():
                    return place
    return path


def find_run(name: str | os.PathLike[str]) -> Path | None:
    """The folder of a run by its path, or by its name below runs/; None: not found."""
    for path in (Path(name), Path("runs") / name):
        if (path / "settings.yaml").is_file():
            return path
    return None
