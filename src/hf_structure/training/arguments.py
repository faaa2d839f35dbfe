"""The options that the training scripts of `examples/` share, as dataclasses."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from transformers import SchedulerType, TrainingArguments
from transformers.integrations import get_available_reporting_integrations
from transformers.optimization import TYPE_TO_SCHEDULER_FUNCTION
from transformers.trainer_pt_utils import AcceleratorConfig

from hf_structure.training.launching import check_launcher, check_sharding

SIZES = "a batch holds as many sentences as --max_tokens allows"
SCORED = "whole data sets are scored, in batches of --max_tokens"
COLUMNS = "the script itself makes the columns that the model reads"
IGNORED = {  # options of `TrainingArguments` that nothing reads here, and what there is instead
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
# Likewise of its `accelerator_config`.
IGNORED_BY_LOADERS = ("split_batches", "dispatch_batches", "even_batches", "use_seedable_sampler", "non_blocking")
OF_HUB = ("hub_model_id", "hub_token", "hub_private_repo", "hub_strategy", "hub_always_push", "hub_revision")


def option(default: Any, help: str, **metadata: Any) -> Any:
    """A field of a dataclass of options; `metadata` is what `HfArgumentParser` reads of it, such as `choices`."""
    return field(default=default, metadata={"help": help, **metadata})


@dataclass
class TrainedModelArguments:
    """What is trained further."""

    _argument_group_name: ClassVar[str] = "model"
    needs: ClassVar[dict[str, str]] = {}  # options that have an effect only beside another one
    of_evaluation: ClassVar[tuple[str, ...]] = ("trust_remote_code",)  # options that results depend on

    model_name_or_path: str | None = option(
        None, "Model and tokenizer to go on training from (folder, short name or Hub name)."
    )
    trust_remote_code: bool = option(False, "Whether code that comes with a model or tokenizer may run.")


@dataclass
class ModelArguments(TrainedModelArguments):
    """What is trained."""

    model_type: str | None = option(None, "What to train from scratch: one of the families named above.")
    config_overrides: str | None = option(
        None,
        "Settings of the model, as JSON: '{\"hidden_size\": 256}'. Of a trained one those that leave its "
        "weights as they are: '{\"hidden_dropout\": 0.0}'.",
    )


@dataclass
class DataArguments:
    """What it is trained on."""

    _argument_group_name: ClassVar[str] = "data"
    needs: ClassVar[dict[str, str]] = {}
    of_evaluation: ClassVar[tuple[str, ...]] = ("max_tokens",)

    train_file: list[str] | None = option(
        None, "Training text, one or more files; without it, the model is only evaluated."
    )
    validation_file: list[str] | None = option(None, "Validation text, one or more files.")
    test_file: list[str] | None = option(None, "Text that the best checkpoint is evaluated on at the end.")
    max_length: int = option(256, "Longer training sentences are left out (and counted).")
    max_tokens: int = option(4096, "Tokens of a batch on one device, padding counted.")
    preprocessing_num_workers: int | None = option(None, "Processes that prepare the text; by default one.")
    overwrite_cache: bool = option(False, "Prepare text anew that was prepared by an earlier run.")

    @property
    def trains(self) -> bool:
        """Whether there is something to train on."""
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
    load_best_model_at_end: bool = option(True, "Whether to end with the best checkpoint.")
    metric_for_best_model: str | None = option("loss", "What makes a checkpoint the best.")
    logging_steps: float = option(0, "Log the training loss every so many steps; by default once an epoch.")
    early_stopping_patience: int | None = option(
        10, "Stop after this many evaluations without a better one; 0 never stops."
    )
    restore_callback_states_from_checkpoint: bool = option(
        True, "Whether a resumed run remembers the patience that is left."
    )
    report_to: str | None = option("none", "Where to report to, e.g. tensorboard.")
    license: str | None = option(None, "Licence of the model, for its card: apache-2.0, ...")
    language: str | None = option(None, "Language of its text, for its card: en, de, ...")
    given: tuple[str, ...] = field(init=False, default=())  # the options that the command line names

    def __post_init__(self):
        if self.output_dir is None:
            raise ValueError("--output_dir is needed")
        if self.push_to_hub and not self.license:
            raise ValueError("--license is needed with --push_to_hub: that of the model, such as apache-2.0")
        check_launcher()
        if self.logging_strategy == "steps" and not self.logging_steps:
            self.logging_strategy = "epoch"
        if not torch.accelerator.is_available():
            self.use_cpu = True  # or else each of several processes would train by itself
        if self.eval_strategy == "no":  # then no checkpoint is known to be the best
            self.load_best_model_at_end = False
            self.early_stopping_patience = 0
        super().__post_init__()
        check_sharding(self)
        self._check_loaders()
        self._check_schedule()
        found = {*get_available_reporting_integrations(), "azure_ml", "flyte"}  # which it does not always list
        if missing := {*(self.report_to or ())} - found:
            raise ValueError(f"--report_to {min(missing)}: not installed, or no tool that transformers knows")

    def _check_loaders(self) -> None:
        usual = AcceleratorConfig()
        for name in IGNORED_BY_LOADERS:
            if getattr(self.accelerator_config, name) != getattr(usual, name):
                raise ValueError(f"--accelerator_config: {name} has no effect: each process makes its own batches")

    def _check_schedule(self) -> None:
        schedule = SchedulerType(self.lr_scheduler_type)
        settings = schedule_settings(schedule)
        unknown = [name for name in self.lr_scheduler_kwargs or {} if name not in settings]
        if unknown and not any(setting.kind is setting.VAR_KEYWORD for setting in settings.values()):
            raise ValueError(f"--lr_scheduler_kwargs: {schedule.value} has no settings {', '.join(unknown)}")


def schedule_settings(schedule: SchedulerType | str) -> Mapping[str, inspect.Parameter]:
    """What a schedule of the learning rate is made from, by name."""
    return inspect.signature(TYPE_TO_SCHEDULER_FUNCTION[SchedulerType(schedule)]).parameters


def has_warmup(schedule: SchedulerType | str) -> bool:
    """Whether the learning rate rises in the first `warmup_steps`."""
    return "num_warmup_steps" in schedule_settings(schedule)
