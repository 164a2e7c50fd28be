#!/bin/bash
# Submits the inference of two models and, after both have completed, their comparison. Slurm waits for them, so
# nobody has to: a job that fails or is cancelled cancels the comparison, and a requeued one delays it.
# run_comparison.sh ORIGINAL_MODEL TRAINED_MODEL FOLDER [infer.py's options …]; CODE comes from the environment.
set -euo pipefail
if [ $# -lt 3 ]; then
  echo "run_comparison.sh: give the original model, the trained model and a folder for the results" >&2
  exit 2
fi
original=$1 trained=$2 folder=$3
shift 3
code=${CODE:-/mnt/training/code}
mkdir -p "$folder"

submit() { sbatch --parsable --export="ALL,$1" "${@:2}" | cut -d ';' -f 1; }
first=$(submit "MODEL=$original,RESULTS=$folder/original" "$code/batch/inference.sbatch" "$@")
second=$(submit "MODEL=$trained,RESULTS=$folder/trained" "$code/batch/inference.sbatch" "$@")
third=$(submit "FIRST=$folder/original,SECOND=$folder/trained,REPORT=$folder/comparison.json" \
  --dependency="afterok:$first:$second" --kill-on-invalid-dep=yes "$code/batch/compare_models.sbatch")
echo "$first $second $third"
