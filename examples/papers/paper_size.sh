#!/usr/bin/env bash
# The papers' sizes on one GPU: UDGN and StructFormer of 512 x 8, GiLT of 16 x 1024 beside its Transformer-XL.
#
#     DEV=en_ewt-dev.conllu TEST=en_ewt-test.conllu bash examples/papers/paper_size.sh runs/paper train-*.txt.xz
#
# The first argument is the folder of all results, the others are raw text, as prepare_text.py reads it. DEV and TEST are
# treebanks in CoNLL-U; no training sees their trees. The trees of GiLT's text are those of rngt-en-fast.
#   EPOCHS   passes over the text; default: 1
#   OPTIONS  further options of all trainings, as "--max_steps 500" or "--use_cpu"
# Each model's all_results.json has its tokens (num_input_tokens_seen), seconds (train_runtime) and memory
# (train_mem_gpu_*); score.txt has GiLT's perplexities. What is done is not done again, and what was stopped goes on: give
# the same command again. `timeout 10m bash ...` trains in parts.
set -euo pipefail

if [ $# -lt 2 ]; then
    echo "usage: DEV=dev.conllu TEST=test.conllu bash $0 FOLDER TEXT [TEXT ...]" >&2
    exit 2
fi
: "${DEV:?a treebank in CoNLL-U for development}" "${TEST:?a treebank in CoNLL-U for the test}"
output=$1 text=("${@:2}")
examples=$(dirname "$0")/..
options=(--num_train_epochs "${EPOCHS:-1}" --bf16 --eval_strategy steps --eval_steps 500
    --save_strategy steps --save_steps 500 --save_total_limit 1 --include_num_input_tokens_seen true
    --skip_memory_metrics false --validation_file "$DEV" --test_file "$TEST"
    ${OPTIONS:-})
mkdir -p "$output"

words=$output/words.txt.xz
[ -e "$words" ] || python "$examples/prepare_text.py" "${text[@]}" --output "$words" --num_workers "$(nproc)"

train() { # NAME SCRIPT OPTIONS...
    [ -e "$output/$1/test_results.json" ] || python "$examples/$2" --output_dir "$output/$1" \
        "${@:3}" "${options[@]}"
}

train udgn run_mlm.py --config "$examples/configs/udgn-bllip.json" --train_file "$words"
train structformer run_mlm.py --config "$examples/configs/structformer-bllip.json" --train_file "$words" \
    --tokenizer_name "$output/udgn" # one vocabulary, so that perplexities can be compared

trees=$output/trees.conllu.gz
[ -e "$trees" ] || python "$examples/annotate_corpus.py" "$words" --model rngt-en-fast --skip_long --output "$trees"
train gilt run_clm.py --config "$examples/configs/gilt-bllip.json" --train_file "$trees"
train transformer-xl run_clm.py --config "$examples/configs/gilt-bllip.json" --model_type transformer-xl \
    --train_file "$trees" --tokenizer_name "$output/gilt"
if [ ! -e "$output/score.txt" ]; then
    hf-structure score --model "$output/gilt" --summary --beam_size 1,20 "$TEST" > "$output/score.partial"
    mv "$output/score.partial" "$output/score.txt"
fi
