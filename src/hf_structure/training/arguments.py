"""Options that the training scripts of `examples/` share, as dataclasses."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from transformers import SchedulerType, TrainingArguments
from transformers.integrations import get_available_reporting_integrations
from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
from transformers.trainer_pt_utils import AcceleratorConfig

from hf_structure.hub.eval_results import parse_benchmark
from hf_structure.training.launching import check_launcher, check_sharding

SIZES = "a batch holds as many sentences as --max_tokens allows"
SCORED = "whole data sets are scored, in batches of --max_tokens"
COLUMNS = "the script itself makes the columns that the model reads"
# Options of `TrainingArguments` that have no effect here, with the reason for the error message.
IGNORED = {
    "per_device_train_batch_size": SIZES,
    "per_device_eval_batch_size": SIZES,
    "auto_find_batch_size": f"{SIZES}; where memory runs out, give a smaller number",
    "train_sampling_strategy": "a batch holds sentences of similar lengths, and batches come in a random order",
    "dataloader_drop_last": "every sentence of an epoch is trained on, in no incomplete batch",
    "dataloader_persistent_workers": "workers begin anew with every epoch, which masks other words",
    **dict.fromkeys(("length_column_name", "remove_unused_columns", "label_names"), COLUMNS),
    **dict.fromkeys(("prediction_loss_only", "eval_do_concat_batches", "eval_use_gather_object"), SCORED),
    **dict.fromkeys(("eval_accumulation_steps", "include_for_metrics", "batch_eval_metrics"), SCORED),
    **dict.fromkeys(("bf16_full_eval", "fp16_full_eval"), "evaluation computes as training does"),
    **dict.fromkeys(("use_liger_kernel", "liger_kernel_config"), "Liger has no kernels for these models"),
    "deepspeed": "DeepSpeed is not supported; --fsdp shards a model on several GPUs",
    **dict.fromkeys(("do_train", "do_eval", "do_predict"), "the files that are given say what is done"),
}
# The same for its `accelerator_config`.
IGNORED_BY_LOADERS = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking")
OF_HUB = ("hub_model_id", "hub_token", "hub_private_repo", "hub_strategy", "hub_always_push", "hub_revision")


def option(default: Any, help: str, **metadata: Any) -> Any:
    """Makes a field of a dataclass of options; `metadata` is for `HfArgumentParser`, such as `choices`."""
    return field(default=default, metadata={"help": help, **metadata})


@dataclass
class TrainedModelArguments:
    """Options of a trained model."""

    _argument_group_name: ClassVar[str] = "model"
    needs: ClassVar[dict[str, str]] = {}  # options that need another one to have an effect
    of_evaluation: ClassVar[tuple[str, ...]] = ("trust_remote_code",)  # options that change the results

    model_name_or_path: str | None = option(
        None, "Model and tokenizer to train further (folder, short name or Hub name)."
    )
    trust_remote_code: bool = option(False, "Allow code that comes with a model or tokenizer to run.")


@dataclass
class ModelArguments(TrainedModelArguments):
    """Options of the model."""

    model_type: str | None = option(None, "Family of a new model: one of the families above.")
    config_overrides: str | None = option(
        None,
        "Settings of the model, as JSON: '{\"hidden_size\": 256}'. For a trained model, only settings that leave its "
        "weights unchanged: '{\"hidden_dropout\": 0.0}'.",
    )


@dataclass
class DataArguments:
    """Options of the data."""

    _argument_group_name: ClassVar[str] = "data"
    needs: ClassVar[dict[str, str]] = {}
    of_evaluation: ClassVar[tuple[str, ...]] = ("max_tokens",)

    train_file: list[str] | None = option(
        None, "Training text, one or more files; without it, the model is only evaluated."
    )
    validation_file: list[str] | None = option(None, "Validation text, one or more files.")
    test_file: list[str] | None = option(None, "Test text, on which the best checkpoint is evaluated at the end.")
    eval_dataset: str | None = option(
        None, "The data set of the Hub that these files are of, ORG/NAME[/TASK][@REVISION], for results there."
    )
    max_length: int = option(256, "Maximum length of training sentences; longer ones are left out (and counted).")
    max_tokens: int = option(4096, "Tokens of a batch on one device, including padding.")
    preprocessing_num_workers: int | None = option(None, "Number of processes that prepare the text; by default 1.")
    overwrite_cache: bool = option(False, "Prepare the text again, even if an earlier run has prepared it.")

    def __post_init__(self):
        # At the start: a wrong name would otherwise show only when the model has been trained.
        if self.eval_dataset:
            parse_benchmark(self.eval_dataset)

    @property
    def trains(self) -> bool:
        """True if there is training data."""
        return bool(self.train_file)


@dataclass
class RunArguments(TrainingArguments):
    """`TrainingArguments` that evaluate and save once an epoch and keep the best checkpoint."""

    _argument_group_name: ClassVar[str] = "training: the options of transformers.TrainingArguments"
    ignored: ClassVar[dict[str, str]] = IGNORED
    needs: ClassVar[dict[str, str]] = {
        **dict.fromkeys(OF_HUB, "push_to_hub"),
        **dict.fromkeys(("dataloader_in_order", "dataloader_multiprocessing_context"), "dataloader_num_workers"),
        "activation_checkpointing_kwargs": "activation_checkpointing",
        "fsdp_config": "fsdp",
    }
    of_evaluation: ClassVar[tuple[str, ...]] = ("seed", "bf16", "fp16")

    eval_strategy: str = option("epoch", "When to evaluate.")
    save_strategy: str = option("epoch", "When to save; the best checkpoint is kept.")
    save_total_limit: int | None = option(2, "Checkpoints kept, the best one included.")
    load_best_model_at_end: bool = option(True, "End with the best checkpoint instead of the last one.")
    metric_for_best_model: str | None = option("loss", "Metric of the best checkpoint.")
    logging_steps: float = option(0, "Log the training loss every N steps; by default once an epoch.")
    early_stopping_patience: int | None = option(
        10, "Stop after this many evaluations without improvement; 0 never stops early."
    )
    restore_callback_states_from_checkpoint: bool = option(
        True, "Restore the remaining patience when a run is resumed."
    )
    report_to: str | None = option("none", "Tools to report to, e.g. tensorboard.")
    license: str | None = option(None, "Licence of the model, for its card: apache-2.0, ...")
    language: str | None = option(None, "Language of the model, for its card: en, de, ...")
    given: tuple[str, ...] = field(init=False, default=())  # options on the command line

    def __post_init__(self):
        self._check_given()
        if self.logging_strategy == "steps" and not self.logging_steps:
            self.logging_strategy = "epoch"
        # Otherwise each of several processes would train by itself.
        if not torch.accelerator.is_available():
            self.use_cpu = True
        # Without evaluation no checkpoint is known to be the best.
        if self.eval_strategy == "no":
            self.load_best_model_at_end = False
            self.early_stopping_patience = 0
        super().__post_init__()
        check_sharding(self)
        self._check_loaders()
        self._check_schedule()
        self._check_reports()

    def _check_given(self) -> None:
        if self.output_dir is None:
            raise ValueError("--output_dir is needed")
        if self.push_to_hub and not self.license:
            raise ValueError("--license is needed with --push_to_hub: that of the model, such as apache-2.0")
        check_launcher()

    def _check_reports(self) -> None:
        # transformers knows two more tools than it lists.
        found = {*get_available_reporting_integrations(), "azure_ml", "flyte"}
        if missing := {*(self.report_to or ())} - found:
            raise ValueError(f"--report_to {min(missing)}: not installed, or no tool that transformers knows")

    def _check_loaders(self) -> None:
        usual = AcceleratorConfig()
        for name in IGNORED_BY_LOADERS:
            if getattr(self.accelerator_config, name) != getattr(usual, name):
                raise ValueError(f"--accelerator_config: {name} has no effect: each process makes its own batches")

    def _check_schedule(self) -> None:
        schedule = SchedulerType(self.lr_scheduler_type)
        # transformers would fail only when training begins.
        settings = schedule_settings(schedule)
        unknown = [name for name in self.lr_scheduler_kwargs or {} if name not in settings]
        if unknown and not any(setting.kind is setting.VAR_KEYWORD for setting in settings.values()):
            raise ValueError(f"--lr_scheduler_kwargs: {schedule.value} has no settings {', '.join(unknown)}")


def schedule_settings(schedule: SchedulerType | str) -> Mapping[str, inspect.Parameter]:
    """Returns the parameters of a learning-rate schedule, by name."""
    return inspect.signature(TYPE_TO_SCHEDULER_FUNCTION[SchedulerType(schedule)]).parameters


def has_warmup(schedule: SchedulerType | str) -> bool:
    """Returns True if the schedule has a warm-up."""
    return "num_warmup_steps" in schedule_settings(schedule)
