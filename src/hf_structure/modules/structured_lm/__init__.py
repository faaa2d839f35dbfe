"""
The machine of structured language models: causal language models that build a structure while they read, and whose
attention is biased by it. Each piece has one owner:

- `transformer_xl`, `backbones`: the layers below, from scratch or of transformers;
- `tape_attention`: what tapes add to attention scores;
- `structure_cache`: keys, values and the structure so far; `search_cache`: keys and values of a search;
- `hypotheses`, `beam_search`: structures of given sentences; `generation`: text and structure together;
- `configuration`, `modeling`: what configurations, model classes and losses have in common; to and from the models
  of transformers that are grafted on.

A family adds, in its own folder:

1. its tape: a subclass of `TapeKeys`, the vectors of the tape's values, for the layers that `read_tapes` connects;
2. its scorer: what the structure grows by, given the states so far and the next token;
3. its legal actions, over the same scorer: a subclass of `StructureCache` that replays given structures, one of
   `Hypotheses` that branches, one of `StructureWriter` that writes;
4. a subclass of `StructuredLMConfig` with the `structure_layers`, and its three model classes on the mixins
   of `modeling`, whose `forward` turns the given structure into a `TapeLookup` and scores it, and whose `decode` turns
   what `beam_search` finds into a `DecoderOutput`.
"""
