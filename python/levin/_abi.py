"""_abi.py - the structs and functions of levin.h for ctypes; written by `make docs` from include/levin.h.

A pointer that the library allocates, or that a numpy array owns, is c_void_p; tests/python/test_abi.py has a C compiler check
the offsets.
"""
from __future__ import annotations

from ctypes import CFUNCTYPE, POINTER, Structure, c_bool, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from typing import Any

ABI = 2


class Setting(Structure):
    _fields_ = [
        ("size", c_int64),
        ("key", c_char_p),
        ("type", c_char_p),
        ("default_value", c_char_p),
        ("help", c_char_p),
        ("choices", POINTER(c_char_p)),
        ("min", c_double),
        ("max", c_double),
        ("fixed", c_int64),
    ]


class Sizes(Structure):
    _fields_ = [
        ("size", c_int64),
        ("n_layer", c_int64),
        ("n_head", c_int64),
        ("n_embd", c_int64),
        ("block_size", c_int64),
        ("vocab_size", c_int64),
        ("dropout", c_double),
    ]


class RunScalar(Structure):
    _fields_ = [
        ("size", c_int64),
        ("name", c_char_p),
        ("value", c_double),
        ("is_new", c_int64),
    ]


class RunEvent(Structure):
    _fields_ = [
        ("size", c_int64),
        ("kind", c_int64),
        ("step", c_int64),
        ("max_steps", c_int64),
        ("epoch", c_int64),
        ("text", c_char_p),
        ("n_scalars", c_int64),
        ("scalar", POINTER(RunScalar)),
        ("is_best", c_int64),
        ("elapsed_s", c_double),
        ("eta_s", c_double),
        ("epoch_s", c_double),
        ("best_val_loss", c_double),
        ("start_val_loss", c_double),
        ("memory_bytes", c_int64),
        ("peak_bytes", c_int64),
        ("name", c_char_p),
        ("run_dir", c_char_p),
        ("unit", c_char_p),
        ("isa", c_char_p),
        ("parameters", c_int64),
        ("trained", c_int64),
        ("batch_size", c_int64),
        ("micro_batch_size", c_int64),
        ("accumulation", c_int64),
        ("block_size", c_int64),
        ("steps_per_epoch", c_int64),
        ("train_tokens", c_int64),
        ("val_tokens", c_int64),
        ("train_samples", c_int64),
        ("val_samples", c_int64),
        ("rank", c_int64),
        ("ranks", c_int64),
        ("hosts", c_int64),
        ("threads", c_int64),
    ]


class RunField(Structure):
    _fields_ = [
        ("size", c_int64),
        ("name", c_char_p),
        ("dtype", c_int64),
        ("rank", c_int64),
        ("dim", c_int64 * 3),
        ("below", c_int64),
    ]

ON_SAMPLE = CFUNCTYPE(c_int, c_void_p, c_int64, c_int64, POINTER(c_void_p), c_void_p)

class RunData(Structure):
    _fields_ = [
        ("size", c_int64),
        ("n_fields", c_int64),
        ("field", POINTER(RunField)),
        ("samples", c_int64 * 3),
        ("vocab_size", c_int64),
        ("is_stream", c_int64),
        ("sample", ON_SAMPLE),
        ("context", c_void_p),
        ("n_classes", c_int64),
        ("classes", POINTER(c_char_p)),
    ]

ON_EVENT = CFUNCTYPE(c_int, c_void_p, POINTER(RunEvent))

class RunOptions(Structure):
    _fields_ = [
        ("size", c_int64),
        ("mode", c_int64),
        ("model", c_void_p),
        ("on_event", ON_EVENT),
        ("context", c_void_p),
        ("data", POINTER(RunData)),
    ]

ON_TOKEN = CFUNCTYPE(c_int, c_void_p, c_int32, c_char_p)

class Generation(Structure):
    _fields_ = [
        ("size", c_int64),
        ("prompt", c_void_p),
        ("n_prompt", c_int64),
        ("max_new_tokens", c_int64),
        ("temperature", c_double),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("seed", c_int64),
        ("number", c_int64),
        ("ignore_eos", c_int64),
        ("on_token", ON_TOKEN),
        ("context", c_void_p),
        ("ids", c_void_p),
        ("n_ids", c_int64),
        ("text", c_void_p),
        ("conversation", c_char_p),
        ("chat_template", c_char_p),
        ("repetition_penalty", c_double),
    ]


class Parameter(Structure):
    _fields_ = [
        ("size", c_int64),
        ("name", c_char_p),
        ("dtype", c_int64),
        ("rank", c_int64),
        ("shape", c_int64 * 4),
        ("data", c_void_p),
    ]


class Classified(Structure):
    _fields_ = [
        ("size", c_int64),
        ("n", c_int64),
        ("classes", c_int64),
        ("probability", c_void_p),
        ("names", c_void_p),
    ]


class EvaluatedModel(Structure):
    _fields_ = [
        ("size", c_int64),
        ("loss", c_double),
        ("labels", c_int64),
        ("samples", c_int64),
        ("skipped", c_int64),
        ("split", c_char_p),
        ("n_metrics", c_int64),
        ("metric", POINTER(RunScalar)),
        ("classes", c_int64),
        ("confusion", c_void_p),
    ]


class TaskScores(Structure):
    _fields_ = [
        ("size", c_int64),
        ("n_tasks", c_int64),
        ("task", POINTER(c_char_p)),
        ("limit", c_int64),
        ("num_fewshot", c_int64),
        ("items", c_int64),
        ("result", c_void_p),
    ]

ON_INTERRUPT = CFUNCTYPE(c_int, c_void_p)

# name: (result, arguments)
FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "levin_abi_version": (c_int, []),
    "levin_version": (c_char_p, []),
    "levin_outcome": (c_int, [c_int]),
    "levin_free": (None, [c_void_p]),
    "levin_on_interrupt": (None, [ON_INTERRUPT, c_void_p]),
    "levin_settings_new": (c_void_p, []),
    "levin_settings_free": (None, [c_void_p]),
    "levin_settings_put": (c_int, [c_void_p, c_char_p, c_char_p]),
    "levin_settings_recipe": (c_int, [c_void_p, c_char_p]),
    "levin_settings_variables": (c_int, [c_void_p]),
    "levin_settings_check": (c_int, [c_void_p]),
    "levin_settings_get": (c_char_p, [c_void_p, c_char_p]),
    "levin_settings_source": (c_char_p, [c_void_p, c_char_p]),
    "levin_settings_count": (c_int64, []),
    "levin_settings_describe": (c_int, [c_int64, POINTER(Setting)]),
    "levin_run_open_with": (c_int, [POINTER(c_void_p), c_void_p, POINTER(RunOptions)]),
    "levin_run_stop": (None, [c_void_p]),
    "levin_run_step": (c_int, [c_void_p, POINTER(c_bool)]),
    "levin_run_steps": (c_int64, [c_void_p]),
    "levin_run_end_reason": (c_char_p, [c_void_p]),
    "levin_run_value": (c_double, [c_void_p, c_char_p]),
    "levin_run_validate": (c_int, [c_void_p]),
    "levin_run_evaluate": (c_int, [c_void_p, c_char_p]),
    "levin_run_results": (c_int64, [c_void_p, POINTER(RunScalar), c_int64]),
    "levin_run_generate": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "levin_run_log": (c_int, [c_void_p, c_int64, POINTER(c_char_p), POINTER(c_double)]),
    "levin_run_save": (c_int, [c_void_p]),
    "levin_run_end": (c_int, [c_void_p]),
    "levin_run_close": (c_int, [c_void_p]),
    "levin_settings_model": (c_int, [c_void_p, c_char_p]),
    "levin_inference_open": (c_int, [POINTER(c_void_p), c_void_p]),
    "levin_inference_close": (c_int, [c_void_p]),
    "levin_inference_vocab_size": (c_int64, [c_void_p]),
    "levin_inference_block_size": (c_int64, [c_void_p]),
    "levin_inference_classes": (c_int, [c_void_p, POINTER(c_void_p)]),
    "levin_inference_encode": (c_int, [c_void_p, c_char_p, c_int64, POINTER(c_void_p), POINTER(c_int64)]),
    "levin_inference_decode": (c_int, [c_void_p, c_void_p, c_int64, POINTER(c_void_p)]),
    "levin_inference_generate": (c_int, [c_void_p, POINTER(Generation)]),
    "levin_inference_logits": (c_int, [c_void_p, c_void_p, c_int64, c_int64, POINTER(c_void_p), POINTER(c_int64), POINTER(c_int64)]),
    "levin_inference_parameters": (c_int, [c_void_p, POINTER(c_int64)]),
    "levin_inference_parameter": (c_int, [c_void_p, c_int64, POINTER(Parameter)]),
    "levin_inference_copy": (c_int, [c_void_p, c_int64, c_void_p, c_int64]),
    "levin_classify": (c_int, [c_void_p, POINTER(c_char_p), POINTER(c_char_p), c_int64, POINTER(Classified)]),
    "levin_evaluate_model": (c_int, [c_void_p, c_int64, c_char_p, POINTER(EvaluatedModel)]),
    "levin_evaluate_tasks": (c_int, [c_void_p, POINTER(TaskScores)]),
    "levin_error_text": (c_char_p, []),
    "levin_error_trace": (c_char_p, []),
}
