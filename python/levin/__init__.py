"""levin: train transformers with one native program, from Python.

    import levin
    history = levin.Run("recipe.yaml", trainer__max_steps=200).fit()

The package calls the library liblevin.so through ctypes and requires only numpy. See docs/python.md.
"""
from . import _library, loggers
from .callback import Callback, Event
from .arrays import BFloat16Array
from .confusion import ConfusionMatrix
from .data import Field
from .errors import Error, FaultError, InputError, StoppedError
from .model import Evaluation, Model, Prediction, TaskScores, load
from .remote import Attached, Job, attach, launch, read_metrics
from .run import History, Run, Summary
from .settings import SettingInfo, Settings, describe

__version__ = (_library.lib.levin_version() or b"").decode()

__all__ = ["Attached", "BFloat16Array", "Callback", "ConfusionMatrix", "Error", "Evaluation", "Event", "FaultError",
           "Field", "History", "InputError", "Job", "Model", "Prediction", "Run", "SettingInfo", "Settings", "StoppedError",
           "Summary", "TaskScores", "attach", "describe", "launch", "load", "loggers", "read_metrics"]
