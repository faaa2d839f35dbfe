"""The trainer of masked language models that induce structure."""

from collections.abc import Iterator

from hf_structure.corpora.collators import WordCollator
from hf_structure.metrics.attachment import attachment_scores
from hf_structure.metrics.constituency import unlabeled_f1
from hf_structure.metrics.perplexity import masked_log_likelihood, masked_perplexity
from hf_structure.models.abilities import abilities_of
from hf_structure.training.trainers.scoring import ScoringTrainer


class MaskedLMTrainer(ScoringTrainer):
    """
    Trainer of masked language models that induce structure.

    Evaluation gives the masked loss and perplexity over `num_maskings` seeded maskings. Induced structures are scored
    if the model has them: UAS and UUAS of trees and of argmax heads where the data set has `heads`, UF1 (the sentence
    mean of unlabelled F1, without single words and whole sentences) where it has `spans`. Punctuation that the model
    does not see is excluded.

    Args:
        data_collator ([`MaskedWordCollator`]): Masks the training text, and with epochs 0, 1, ... the evaluation text.
        num_maskings (`int`): Number of maskings of the evaluation text.
        args, kwargs: As for [`TokenBudgetTrainer`].
    """

    def __init__(self, *args, num_maskings: int = 5, **kwargs):
        super().__init__(*args, **kwargs)
        self.num_maskings = num_maskings

    def scores(self, model, dataset) -> dict[str, float]:
        loss, perplexity = self._perplexity(model, dataset)
        metrics = {"loss": loss, "perplexity": perplexity}
        structures = abilities_of(model.config).structures
        if "dependency" in structures and "heads" in dataset.column_names:
            for decoder, suffix in (("tree", ""), ("argmax", "_argmax")):
                uas, uuas = self._attachment(model, dataset, decoder)
                metrics |= {f"uas{suffix}": uas, f"uuas{suffix}": uuas}
        if "constituency" in structures and "spans" in dataset.column_names:
            metrics["uf1"] = self._uf1(model, dataset)
        return metrics

    def _perplexity(self, model, dataset) -> tuple[float, float]:
        # Evaluation masks with epochs 0, 1, ...; training resumes with its own epoch.
        epoch = self.data_collator.epoch
        sums = []
        for masking in range(self.num_maskings):
            self.data_collator.set_epoch(masking)
            batches = (self.data_collator(batch) for batch in self._batches(dataset))
            sums.append(self._sum_over_processes(masked_log_likelihood(model, batches)))
        self.data_collator.set_epoch(epoch)
        return masked_perplexity(sums)

    def _decode(self, model, dataset, **options) -> Iterator[tuple[list[dict], dict[str, list]]]:
        """Yields batches of examples with their decoded heads and spans, as lists."""
        for batch in self._batches(dataset):
            inputs = {name: value.to(model.device) for name, value in WordCollator()(batch).items() if name != "heads"}
            decoded = model.decode(**inputs, **options)
            yield batch, {name: decoded[name].tolist() for name in ("heads", "spans") if name in decoded}

    def _attachment(self, model, dataset, decoder: str) -> tuple[float, float]:
        predicted = []
        gold = []
        for batch, decoded in self._decode(model, dataset, decoder=decoder):
            gold += [example["heads"] for example in batch]
            predicted += [
                row[0][: len(example["heads"])] for row, example in zip(decoded["heads"], batch, strict=True)
            ]
        sums = [0.0] * 4
        # With more processes than batches, some have no sentences.
        if gold:
            scores = attachment_scores(predicted, gold)
            sums = [scores.uas * scores.words, scores.words, scores.uuas * scores.pairs, scores.pairs]
        correct, words, correct_pairs, pairs = self._sum_over_processes(sums)
        return correct / words, correct_pairs / pairs

    def _uf1(self, model, dataset) -> float:
        predicted = []
        gold = []
        lengths = []
        for batch, decoded in self._decode(model, dataset):
            gold += [example["spans"] for example in batch]
            # The model may see fewer words than the sentence has: padding has the head -1.
            lengths += [sum(head >= 0 for head in row[0]) for row in decoded["heads"]]
            predicted += [[span for span in row if span[0] >= 0] for row in decoded["spans"]]
        sums = [0.0, 0.0]
        if gold:
            scores = unlabeled_f1(predicted, gold, lengths)
            sums = [scores.uf1 * scores.sentences, scores.sentences]
        total, sentences = self._sum_over_processes(sums)
        return total / sentences
