# lab - what the parts in shell share; settings as all.sh says. Sourced.
# shellcheck shell=bash
: "${GPU_BIN:?folder of koboshi and koboshi-train}" "${GPU_OUT:?folder for results}"
GPU_DEVICE=${GPU_DEVICE:-cuda}
GPU_WORK=${GPU_WORK:-$GPU_OUT/work}
mkdir -p "$GPU_OUT/results" "$GPU_OUT/logs" "$GPU_WORK"

# put PART CASE true|false [MORE JSON MEMBERS]: one result line.
put() {
    echo "{\"part\": \"$1\", \"case\": \"$2\", \"ok\": $3, \"device\": \"$GPU_DEVICE\"${4:+, ${4//$'\n'/}}}" |
        tee -a "$GPU_OUT/results/$1.jsonl"
}
# A case that went well need not run again.
had() { grep -qsF "\"case\": \"$2\", \"ok\": true" "$GPU_OUT/results/$1.jsonl"; }
