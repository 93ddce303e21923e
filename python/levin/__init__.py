"""levin: train transformers with one native program, from Python.

    import levin
    history = levin.Run("recipe.yaml", trainer__max_steps=200).fit()

The package calls the library liblevin.so through ctypes and needs numpy alone. docs/python.md describes it.
"""
from . import _door
from .callback import Callback, Event
from .arrays import BFloat16Array
from .data import Field
from .errors import Error, FaultError, InputError, StoppedError
from .model import Evaluation, Model, Prediction, load
from .run import History, Run
from .settings import SettingInfo, Settings, describe

__version__ = (_door.lib.lvn_version() or b"").decode()

__all__ = ["BFloat16Array", "Callback", "Error", "Evaluation", "Event", "FaultError", "Field", "History", "InputError",
           "Model", "Prediction", "Run", "SettingInfo", "Settings", "StoppedError", "describe", "load"]
