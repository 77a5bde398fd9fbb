#!/bin/bash
# How well the simulator predicts tiny_engine: fits a profile to one run, then compares what the simulator says of other
# runs with what the engine measures. docs/background/fidelity.md has the results. In real time, so on a quiet machine; from the
# build's folder:
#
#   ../../bench/fidelity.sh TRACES OUT          # TRACES: the folder with the public traces; OUT: for all files
#
# Environment: MODEL (3M), THREADS (1), LENGTHS (0.0625: of the traces' own), REQUESTS (200: of each trace), SHARES
# ("0.6 1.1": of what the engine can do), REPEATS (2: each run so often), QUIET (5: a run counts if other programs used
# less of a processor meanwhile, in percent, and is repeated otherwise; 200: any counts), CLOCK (wall; processor: the
# engine's --processor-time).
set -eu
traces=$1 out=$2
model=${MODEL:-3M} threads=${THREADS:-1} repeats=${REPEATS:-2} requests=${REQUESTS:-200}
lengths=${LENGTHS:-0.0625} quiet=${QUIET:-5}
shares=${SHARES:-0.6 1.1}
clock=()
[ "${CLOCK:-wall}" = wall ] || clock=(--processor-time)
engine=bin/tiny_engine takt=bin/takt
conv=$traces/azure_llm_2023_conv.csv.gz code=$traces/azure_llm_2023_code.csv.gz
mkdir -p "$out"

# What engine and simulator have in common.
limits=(--token-budget 256 --max-seqs 32)
kv_blocks=2048
id=own/tiny-$model/host/fp32/tp1

workload() {  # NAME -> the options that make it
  case $1 in
    conv) echo "$conv --limit $requests --length-scale $lengths" ;;
    code) echo "$code --limit $requests --length-scale $lengths" ;;
    stages) echo "bundled --limit $((requests * 2 / 5)) --length-scale $lengths" ;;
  esac
}

# Seconds that all processors were busy since the machine started.
busy() { awk -v hz="$(getconf CLK_TCK)" '/^cpu /{print ($2 + $3 + $4 + $7 + $8 + $9) / hz}' /proc/stat; }

below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }'; }

# Waits until other programs use little of the processors.
wait_for_quiet() {
  local before
  while before=$(busy) && sleep 2; do
    if below "$(awk -v b="$before $(busy)" 'BEGIN { split(b, t); print 50 * (t[2] - t[1]) }')" "$quiet"; then return; fi
  done
}

# serve FILE WORKLOAD RATE POLICY: the engine's report and its steps, of a run that was little disturbed.
serve() {
  local before begin file=$1 line
  while true; do
    wait_for_quiet
    before=$(busy) begin=$EPOCHREALTIME
    TIMEFORMAT='%U %S'
    # shellcheck disable=SC2046
    { time "$engine" --trace $(workload "$2") --rate-scale "$3" --policy "$4" --model "$model" --threads "$threads" \
        "${limits[@]}" "${clock[@]}" --kv-blocks $kv_blocks --json "$file.json" --steps "$file.jsonl" -q; } \
      2> "$file.time" || { cat "$file.time"; exit 1; }
    line=$(tail -1 "$file.time" | awk -v busy="$before $(busy)" -v wall="$begin $EPOCHREALTIME" '{
      split(busy, b); split(wall, w); s = w[2] - w[1]
      printf "%.1f %.1f %.1f", 100 * (b[2] - b[1] - $1 - $2) / s, 100 * ($1 + $2) / s, s }')
    read -r others own seconds <<< "$line"
    echo "${file##*/}: $seconds s, engine $own % of a processor, others $others %" | tee -a "$out/noise.txt"
    if below "$others" "$quiet"; then return; fi
  done
}

calibrate() {  # LOG PROFILE
  "$takt" calibrate "$1" --id "$id" --kv-tokens $((kv_blocks * 16)) --token-budget 256 --max-seqs 32 --out "$2" \
    --html "${2%.json}.html"
}

predict() {  # FILE PROFILE WORKLOAD RATE POLICY
  # shellcheck disable=SC2046
  "$takt" replay --workload $(workload "$3") --rate-scale "$4" --policy "$5" "${limits[@]}" --profiles "$2" \
    --profile "$id" --json "$1" -q --no-wall
}

rates() {  # PROFILE WORKLOAD SHARES -> the rate scale at each share of saturation
  # shellcheck disable=SC2046
  "$takt" replay --workload $(workload "$2") --sweep "${3// /,}" --policy fcfs "${limits[@]}" --profiles "$1" \
    --profile "$id" --json - -q 2>/dev/null | sed -n 's/.*"rate_scale": \([0-9.]*\).*/\1/p' |
    while read -r rate; do printf '%.2f\n' "$rate"; done
}

: > "$out/noise.txt"
echo "load average before: $(cut -d' ' -f1-3 /proc/loadavg)" | tee -a "$out/noise.txt"

# One run to learn from, at a rate that makes batches of all sizes; a burst tells which rate that is.
serve "$out/pilot" conv 1000 fcfs
calibrate "$out/pilot.jsonl" "$out/pilot-own.json" > "$out/pilot.txt"
serve "$out/learn" conv "$(rates "$out/pilot-own.json" conv 0.9)" fcfs
calibrate "$out/learn.jsonl" "$out/own.json" | tee "$out/fit.txt"

runs=()
for name in stages conv code; do
  for rate in $(rates "$out/own.json" $name "$shares"); do
    for policy in fcfs sjf stjf; do runs+=("$name $rate $policy"); done
  done
done
for ((repeat = 1; repeat <= repeats; ++repeat)); do
  for run in "${runs[@]}"; do
    read -r name rate policy <<< "$run"
    serve "$out/$name-$rate-$policy-$repeat" "$name" "$rate" "$policy"
  done
done
echo "load average after: $(cut -d' ' -f1-3 /proc/loadavg)" | tee -a "$out/noise.txt"

predicted=() own=()
measured1=() measured2=()
for run in "${runs[@]}"; do
  read -r name rate policy <<< "$run"
  base=$out/$name-$rate-$policy
  predict "$base-predicted.json" "$out/own.json" "$name" "$rate" "$policy"
  calibrate "$base-1.jsonl" "$base-own.json" > "$base-fit.txt"
  predict "$base-own-predicted.json" "$base-own.json" "$name" "$rate" "$policy"
  predicted+=("$base-predicted.json") own+=("$base-own-predicted.json") measured1+=("$base-1.json")
  [ "$repeats" -lt 2 ] || measured2+=("$base-2.json")
done
{
  echo "== The simulator, with the profile of the run that was learned from, against the engine"
  "$takt" compare --measured "${measured1[@]}" --predicted "${predicted[@]}"
  if [ "$repeats" -gt 1 ]; then
    echo; echo "== The engine against itself: the same runs once more"
    "$takt" compare --measured "${measured1[@]}" --predicted "${measured2[@]}"
  fi
  echo; echo "== The simulator with a profile of the very run that it predicts"
  "$takt" compare --measured "${measured1[@]}" --predicted "${own[@]}"
} | tee "$out/fidelity.txt"
