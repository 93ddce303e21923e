"""Callbacks that pass scalars to the loggers of other packages, if installed. Rank 0 writes."""
from __future__ import annotations

from typing import Any

from .callback import Callback, Event


class _Logger(Callback):
    def write(self, step: int, scalars: dict[str, float]) -> None:
        raise NotImplementedError

    def on_step(self, run: Any, event: Event) -> None:
        if not event.facts["rank"] and event.scalars:
            self.write(event.step, event.scalars)

    on_validation = on_epoch = on_log = on_step


class WandbLogger(_Logger):
    """`levin.Run(..., callbacks=levin.loggers.WandbLogger(project="mine"))`; options are passed to wandb.init()."""

    def __init__(self, **options: Any) -> None:
        import wandb  # noqa: F401 - missing, it must fail before the run begins
        self.options, self.run = options, None

    def on_start(self, run: Any, event: Event) -> None:
        if not event.facts["rank"]:
            import wandb
            self.run = wandb.init(**{"name": event.facts["name"], "config": dict(run.settings), **self.options})

    def write(self, step: int, scalars: dict[str, float]) -> None:
        self.run.log(scalars, step=step)  # type: ignore[attr-defined]

    def on_end(self, run: Any, event: Event) -> None:
        if self.run:
            self.run.finish()


class MLflowLogger(_Logger):
    """`levin.loggers.MLflowLogger(experiment="mine")`; the tracking server is configured in mlflow."""

    def __init__(self, experiment: str | None = None) -> None:
        import mlflow
        self.experiment, self.mlflow = experiment, mlflow

    def on_start(self, run: Any, event: Event) -> None:
        if not event.facts["rank"]:
            if self.experiment:
                self.mlflow.set_experiment(self.experiment)
            self.mlflow.start_run(run_name=event.facts["name"])
            self.mlflow.log_params({k: v for k, v in run.settings.items() if run.settings.source(k) != "default"})

    def write(self, step: int, scalars: dict[str, float]) -> None:
        self.mlflow.log_metrics(scalars, step=step)

    def on_end(self, run: Any, event: Event) -> None:
        if not event.facts["rank"]:
            self.mlflow.end_run()
