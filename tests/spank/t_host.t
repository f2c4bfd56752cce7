#!/bin/bash
# The plugin in a fake host: every context, every call of Slurm's failing,
# every allocation failing, every child misbehaving. Each hook returns 0, in
# bounded time, and leaves nothing; only a user's own request is refused.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
build=$(cd "${CLUSTER_BUILD:-$here/../../build}" && pwd)
host=$build/tests/spank/fake_host
[ -x "$host" ] && [ -f "$build/spank_koboshi.so" ] ||
    skip_all "the plugin is not built"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/{bin,data,slurm}
chmod 755 "$scratch"
printf '#!/bin/sh\n#SBATCH --no-kill\necho template\n' >"$scratch/data/koboshi.sbatch"
export HOST_SO=$build/spank_koboshi.so
export HOST_ARGS="bindir=$scratch/bin datadir=$scratch/data slurm_bindir=$scratch/slurm
    gate_dir=$scratch/gate plan_timeout=1 health_timeout=1 slurm_timeout=1"
HOST_ARGS=$(tr -s ' \n' ' ' <<<"$HOST_ARGS")
# Children that the tests leave must not keep this script's output open.
unset SLURM_JOB_ID "${!KOBOSHI_@}" "${!SPANK_@}" "${!SBATCH_@}" "${!SLURM_@}"

# program NAME SCRIPT: what a child of the plugin does.
program() {
    printf '#!/bin/sh\n%s\n' "$2" >"$scratch/$1"
    chmod +x "$scratch/$1"
}
# The plugin looks at the name of the program in /proc/self/cmdline.
for name in sbatch salloc srun slurmstepd slurmd; do
    ln -sf "$host" "$scratch/$name"
done
# host CONTEXT NAME WORDS...: run under that name; out and err in files.
host() {
    local context=$1 name=$2
    shift 2
    HOST_CONTEXT=$context timeout -k 1 20 "$scratch/$name" "$@" \
        >"$scratch/out" 2>"$scratch/err" </dev/null
    code=$?
}
first() { head -n 1 "$scratch/out"; }
field() { first | grep -oE "$1=[-0-9]+" | cut -d= -f2; }
said() { cat "$scratch/err"; }

# left_nothing NAME: the hooks returned 0 and left no descriptor or child.
left_nothing() {
    is "$code $(field rc) $(field fds) $(field children)" "0 0 0 0" "$1" ||
        diag "$(said | head -n 5)"
}
# quick NAME MS: and were done in that time.
quick() {
    [ "$(field ms)" -le "$2" ] 2>/dev/null
    is $? 0 "$1: within $2 ms ($(field ms))"
}

program bin/koboshi 'echo the plan'
program bin/koboshi-health 'echo "{}"; echo "ok - -" >&2'
program slurm/sinfo 'printf "n1|idle|Unknown|none\nn2|idle|Unknown|none\n"'
program slurm/scontrol "echo \"\$*\" >>$scratch/scontrol.log"
touch "$scratch/run.yaml"
train=--llm-train=$scratch/run.yaml

# ---- Jobs that did not ask ---------------------------------------------
program bin/koboshi "touch $scratch/ran"
for context in "allocator sbatch" "allocator salloc" "local srun" \
    "remote slurmstepd" "slurmd slurmd"; do
    # shellcheck disable=SC2086
    host $context -N2 job.sh
    left_nothing "${context#* }, nothing asked"
    quick "${context#* }" 50
    is "$(said)$(sed 1d "$scratch/out")" "" "no word, no variable"
    is "$(field blocks)" 0 "no memory is left"
done
program bin/koboshi-health "touch $scratch/ran"
for which in prolog epilog; do
    export HOST_SCRIPT=$which SLURM_JOB_ID=7 SLURMD_NODENAME=n1
    host script slurmd
    left_nothing "$which of a job that did not ask"
    quick "$which" 20
    like "$(field allocs)" '^(0|-1)$' "allocates nothing"
done
unset HOST_SCRIPT SLURM_JOB_ID SLURMD_NODENAME
[ ! -e "$scratch/ran" ]
is $? 0 "no child was started"
[ ! -e "$scratch/gate" ]
is $? 0 "no folder was made"

# ---- A request -----------------------------------------------------------
program bin/koboshi "echo \"\$*\" >$scratch/plan.args; echo the plan"
host allocator sbatch $train -N3 --gpus-per-node=8 -t 10 --llm-set=a=1 \
    --llm-set=b=2 -x bad1 --llm-spares=1 --llm-max-restarts=5
left_nothing "sbatch with --llm-train"
is "$(cat "$scratch/plan.args")" \
    "plan --submit --nodes=3 --gpus-per-node=8 --time-limit=600 $scratch/run.yaml" \
    "the plan is asked what the command line says"
like "$(cat "$scratch/out")" "^env:KOBOSHI_CONFIG=$scratch/run.yaml$" "config"
like "$(cat "$scratch/out")" "^control:KOBOSHI_CONFIG=$scratch/run.yaml$" \
    "config for the prolog"
like "$(cat "$scratch/out")" "^env:KOBOSHI_SPARES=1$" "spares"
like "$(cat "$scratch/out")" "^env:KOBOSHI_USER_EXCLUDE=bad1$" "exclude"
is "$(grep -A1 '^env:KOBOSHI_SET=' "$scratch/out" | tr '\n' ' ')" \
    "env:KOBOSHI_SET=a=1 b=2 " "--llm-set, a line each"
host allocator salloc $train
left_nothing "salloc with --llm-train"
like "$(said)" "cannot requeue a job of salloc" "says that it cannot requeue"
host local srun $train -N2 true
left_nothing "srun with --llm-train"
like "$(said)" "cannot requeue a job of srun" "says that it cannot requeue"
rm -f "$scratch/plan.args"
SLURM_JOB_ID=7 KOBOSHI_CONFIG=/x host local srun -N2 true
left_nothing "srun inside a job"
[ ! -e "$scratch/plan.args" ]
is $? 0 "starts no child"
like "$(cat "$scratch/out")" "^control:KOBOSHI_CONFIG=/x$" "and tells the prolog that the job asked"

# ---- Refusals ---------------------------------------------------------------
program bin/koboshi 'echo "run.yaml:3: key: what" >&2; echo more >&2; exit 2'
host allocator sbatch $train
is "$code" 1 "what the plan refuses is refused"
is "$(said)" "error: koboshi: run.yaml:3: key: what
error: koboshi: more" "in the plan's words"
program bin/koboshi 'exit 2'
host allocator sbatch $train
is "$code" 1 "refused without a word"
like "$(said)" "run.yaml.*without a word" "is said"
program bin/koboshi 'echo the plan'
host allocator sbatch $train --llm-dry-run
is "$code $(cat "$scratch/out")" "0 the plan" "a dry run prints and submits nothing"
rm "$scratch/bin/koboshi"
host allocator sbatch $train --llm-dry-run
is "$code" 1 "a dry run without a plan fails"
program bin/koboshi 'echo the plan'
for bad in --llm-spares=x --llm-spares=-1 --llm-health=all --llm-resume=last \
    --llm-set=x --llm-set== --llm-max-restarts=1.5 --llm-train= --llm-train; do
    host allocator sbatch $bad
    is "$code" 1 "$bad is refused by the option"
    like "$(said)" "^error: koboshi: ${bad%%=*}: " "with its name"
done
for alone in --llm-spares=1 --llm-dry-run --llm-set=a=1; do
    host allocator sbatch $alone job.sh
    is "$code" 1 "$alone alone is refused"
    like "$(said)" "${alone%%=*}: needs --llm-train" "with the remedy"
done

# ---- Children that misbehave: never a reason to refuse -------------------
misbehave() {
    program bin/koboshi "$2"
    host allocator sbatch $train
    left_nothing "a plan that $1"
    quick "$1" 3500
    like "$(said)" "spank: koboshi: the plan was not checked" "is a warning"
}
misbehave "hangs" 'sleep 30'
misbehave "ignores TERM" 'trap "" TERM; sleep 30 & wait; sleep 30'
misbehave "leaves a child with its pipes" 'setsid sleep 4 & exit 3'
misbehave "stops itself" 'kill -STOP $$'
misbehave "crashes" 'kill -SEGV $$'
misbehave "kills itself" 'kill -KILL $$'
misbehave "exits with nonsense" 'exit 77'
misbehave "floods and hangs" 'yes; sleep 30'
misbehave "prints megabytes and fails" 'head -c 5000000 /dev/zero | tr "\0" x >&2; exit 1'
misbehave "closes its streams and hangs" 'exec >&- 2>&- <&-; sleep 30'
rm "$scratch/bin/koboshi"
host allocator sbatch $train
left_nothing "no plan program"
like "$(said)" "the plan was not checked" "is a warning"
mkdir "$scratch/bin/koboshi"
host allocator sbatch $train
left_nothing "a folder instead of it"
rmdir "$scratch/bin/koboshi"
echo "not a program" >"$scratch/bin/koboshi"
chmod +x "$scratch/bin/koboshi"
host allocator sbatch $train
left_nothing "a text instead of it"
program bin/koboshi 'printf "\033[31mred\001\377\n" >&2; echo plan'
host allocator sbatch $train
left_nothing "a plan that prints control characters"
is "$(said | LC_ALL=C grep -c "$(printf '[\001\033]')")" 0 "they reach no terminal"
program bin/koboshi 'sleep 30'
HOST_NO_KILL=1 host allocator sbatch $train
is "$code $(field rc) $(field fds)" "0 0 0" "a child that SIGKILL does not end"
quick "it is left behind" 4000
for context in "allocator salloc" "local srun"; do
    # shellcheck disable=SC2086
    HOST_NO_KILL=1 host $context $train
    is "$code $(field rc) $(field fds)" "0 0 0" "nor under ${context#* }"
    quick "${context#* }" 4000
done

# ---- The gate ---------------------------------------------------------------
export SPANK_KOBOSHI_CONFIG=/x SLURM_JOB_ID=7 SLURMD_NODENAME=n1
gate() {
    rm -rf "$scratch/gate" "$scratch/scontrol.log"
    program bin/koboshi-health "$2"
    HOST_SCRIPT=prolog host script slurmd
    left_nothing "gate: a look that $1"
    quick "gate: $1" "${3:-3500}"
}
verdict() { cat "$scratch/gate/gate.7.json" 2>/dev/null; }
gate "is well" 'echo "{\"verdict\":\"ok\"}"; echo "ok - -" >&2' 500
is "$(verdict)" '{"verdict":"ok"}' "its report is there"
program bin/koboshi-health "touch $scratch/looked-again"
HOST_SCRIPT=prolog SLURM_JOB_ID=8 host script slurmd
left_nothing "the next job within a minute"
quick "reuse" 50
is "$(cat "$scratch/gate/gate.8.json")" '{"verdict":"ok"}' "has the same report"
HOST_SCRIPT=epilog host script slurmd
left_nothing "the epilog"
[ ! -e "$scratch/gate/gate.7.json" ] && [ ! -e "$scratch/looked-again" ]
is $? 0 "removes the verdict, and looked at nothing again"
for case in "hangs|sleep 30" "crashes|kill -SEGV \$\$" \
    "ignores TERM|trap '' TERM; sleep 30 & wait; sleep 30" \
    "stops itself|kill -STOP \$\$" \
    "prints megabytes|head -c 5000000 /dev/zero | tr '\\0' x; exit 5" \
    "lies|echo garbage; echo 'fail a b' >&2; exit 5" "is silent|exit 5" \
    "exits with nonsense|echo {}; echo fail a b >&2; exit 99" \
    "floods|yes" "hangs after a report|echo '{}  '; echo fail a b >&2; sleep 30"; do
    gate "${case%%|*}" "${case#*|}"
    like "$(verdict)" '"verdict":"unknown"' "is unknown"
    if command -v jq >/dev/null; then
        ok "as JSON" jq -e '.findings[0].severity == "unknown"' "$scratch/gate/gate.7.json"
    fi
    [ ! -e "$scratch/scontrol.log" ]
    is $? 0 "and drains nothing"
done
gate "fails" 'echo "{\"v\":1}"; echo "fail disk-bad /var;rm -rf x\$(y)" >&2; exit 5'
is "$(cat "$scratch/scontrol.log")" \
    "update NodeName=n1 State=DRAIN Reason=koboshi: disk-bad /var_rm_-rf_x__y_" \
    "drains, and nothing gets through the reason"
gate "fails without a subject" 'echo "{\"v\":1}"; echo "fail disk-bad" >&2; exit 5'
[ ! -e "$scratch/scontrol.log" ]
is $? 0 "drains nothing"
for case in "hangs|sleep 30" "fails|exit 1" "lies|echo x; exit 0" "floods|yes"; do
    program slurm/sinfo "${case#*|}"
    gate "fails, and sinfo ${case%%|*}" 'echo "{\"v\":1}"; echo "fail a b" >&2; exit 5' 5500
    [ ! -e "$scratch/scontrol.log" ]
    is $? 0 "drains nothing"
done
program slurm/sinfo 'printf "n1|idle|Unknown|none\n"'
program slurm/scontrol 'sleep 30'
gate "fails, and scontrol hangs" 'echo "{\"v\":1}"; echo "fail a b" >&2; exit 5' 5500
program slurm/scontrol "echo \"\$*\" >>$scratch/scontrol.log"
# unkillable NAME LOOK MS: the gate where SIGKILL ends no child.
unkillable() {
    rm -rf "$scratch/gate" "$scratch/scontrol.log"
    program bin/koboshi-health "$2"
    HOST_NO_KILL=1 HOST_SCRIPT=prolog host script slurmd
    is "$code $(field rc) $(field fds)" "0 0 0" "gate: SIGKILL does not end $1"
    quick "it is left behind" "$3"
    [ ! -e "$scratch/scontrol.log" ]
    is $? 0 "and drains nothing"
}
unkillable "the look" 'sleep 30' 4000
like "$(verdict)" '"verdict":"unknown"' "is unknown"
program slurm/sinfo 'sleep 30'
unkillable "sinfo" 'echo "{\"v\":1}"; echo "fail a b" >&2; exit 5' 6500
program slurm/sinfo 'printf "n1|idle|Unknown|none\n"'
rm -rf "$scratch/gate"
ln -s /tmp "$scratch/gate"
HOST_SCRIPT=prolog host script slurmd
left_nothing "a link in place of the gate's folder"
like "$(said)" "cannot open folder" "is told and not followed"
rm "$scratch/gate"
SLURM_JOB_ID=nonsense HOST_SCRIPT=prolog host script slurmd
left_nothing "a job id that is none"
unset SLURMD_NODENAME
HOST_SCRIPT=prolog host script slurmd
left_nothing "no node name"
export SLURMD_NODENAME=n1
SPANK_KOBOSHI_HEALTH=off HOST_SCRIPT=prolog host script slurmd
left_nothing "--llm-health=off"
[ ! -e "$scratch/gate" ]
is $? 0 "looks at nothing"

# ---- Ranks --------------------------------------------------------------------
unset SPANK_KOBOSHI_CONFIG SLURM_JOB_ID SLURMD_NODENAME
export JOB_KOBOSHI_CONFIG=/x JOB_SLURM_STEP_NODELIST='nodeA,nodeB[001,003]'
vars() { grep '^job:' "$scratch/out" | sed 's/^job://' | grep -vE '^(SLURM|KOBOSHI)' | sort | paste -sd ' '; }
host remote slurmstepd
left_nothing "a task"
is "$(field blocks)" 0 "no memory is left"
like "$(vars)" '^LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=nodeA MASTER_PORT=[0-9]+ NODE_RANK=1 RANK=3 WORLD_SIZE=4$' \
    "has its ranks"
HOST_STEP=0xfffffffb host remote slurmstepd
is "$(vars)" "" "the batch script has none"
JOB_RANK=9 JOB_MASTER_ADDR=me host remote slurmstepd
like "$(vars)" 'MASTER_ADDR=me .*RANK=9 WORLD_SIZE=4' "what the user set stays"
JOB_RANK=9 JOB_WORLD_SIZE=9 JOB_KOBOSHI_WIRED=42.0:RANK host remote slurmstepd
like "$(vars)" 'RANK=3 WORLD_SIZE=9' "what an outer step of ours set does not"
JOB_SLURM_DISTRIBUTION=arbitrary host remote slurmstepd
nok "under -m arbitrary no address is guessed" grep -q MASTER_ADDR= <<<"$(vars)"
JOB_SLURM_DISTRIBUTION=arbitrary JOB_KOBOSHI_FIRST_HOST=nodeC host remote slurmstepd
like "$(vars)" 'MASTER_ADDR=nodeC' "but taken from srun"
(unset JOB_KOBOSHI_CONFIG
    JOB_SLURM_SPANK_KOBOSHI_CONFIG=/y JOB_SLURM_SPANK_KOBOSHI_SPARES=1 \
        HOST_STEP=0xfffffffb host remote slurmstepd
    grep -c '^job:KOBOSHI_\(CONFIG=/y\|SPARES=1\)$' "$scratch/out" >"$scratch/n")
is "$(cat "$scratch/n")" 2 "--export=NONE: the batch script gets the options back"

# ---- Another release ------------------------------------------------------------
HOST_VERSION=99.05 host allocator sbatch $train
left_nothing "Slurm 99.05"
like "$(said)" "built for Slurm .* this is 99.05" "is told"
is "$(sed 1d "$scratch/out")" "" "and nothing is done"

# ---- Everything that can fail, in turn -----------------------------------------
program bin/koboshi 'echo the plan'
program bin/koboshi-health 'echo "{}  "; echo "fail a b" >&2; exit 5'
program slurm/sinfo 'printf "n1|idle|Unknown|none\n"'
program slurm/scontrol 'exit 0'
# each VARIABLE COUNT-FIELD CONTEXT NAME WORDS...
each() {
    local variable=$1 counter=$2 n total kept bad=""
    shift 2
    rm -rf "$scratch/gate"
    host "$@"
    total=$(field "$counter")
    [ "$total" != -1 ] || { skip "not under sanitizers"; return; }
    kept=$(field blocks)
    for ((n = 1; n <= ${total:-0}; n++)); do
        rm -rf "$scratch/gate"
        export "$variable=$n"
        host "$@"
        # A request may be refused when an option cannot be kept, nothing more.
        case "$code $(field rc) $(field fds) $(field children)" in
        "0 0 0 0")
            # What a hook leaves on purpose (the environment) it leaves when
            # all goes well; a failure leaves no more.
            [ "$(field blocks)" -le "$kept" ] ||
                bad+=" $n($(field blocks) blocks, not $kept)"
            [ "$(field ms)" -le 6500 ] || bad+=" $n($(field ms) ms)"
            ;;
        "1   ") [ "$*" != "${*/--llm/}" ] || bad+=" $n" ;;
        *) bad+=" $n(code $code, $(first))" ;;
        esac
        unset "$variable"
    done
    [ "${total:-0}" -gt 0 ] || bad="nothing was counted"
    is "$bad" "" "$2: each of $total $counter fails in turn"
}
each HOST_FAIL_CALL calls allocator sbatch $train --llm-spares=1
each HOST_FAIL_CALL calls allocator sbatch -N1 job.sh
each HOST_FAIL_CALL calls local srun $train true
each HOST_FAIL_CALL calls allocator salloc $train
each HOST_FAIL_CALL calls slurmd slurmd
each HOST_FAIL_CALL calls remote slurmstepd
each HOST_FAIL_ALLOC allocs allocator sbatch -N1 job.sh
each HOST_FAIL_ALLOC allocs local srun $train true
each HOST_FAIL_ALLOC allocs remote slurmstepd
each HOST_FAIL_ALLOC allocs slurmd slurmd
each HOST_FAIL_ALLOC allocs allocator salloc $train
each HOST_FAIL_ALLOC allocs allocator sbatch $train --llm-set=a=1 --llm-set=b=2
export SPANK_KOBOSHI_CONFIG=/x SLURM_JOB_ID=7 SLURMD_NODENAME=n1 HOST_SCRIPT=prolog
each HOST_FAIL_ALLOC allocs script slurmd

# ---- No descriptor is left to have ----------------------------------------------
# starved CONTEXT NAME WORDS...: with each number of them, from none up.
starved() {
    local n bad=""
    for ((n = 0; n <= 12; n++)); do
        rm -rf "$scratch/gate"
        HOST_FILES=$n host "$@"
        case "$code $(field rc) $(field fds) $(field children)" in
        "0 0 0 0") ;;
        *) bad+=" $n(code $code, $(first))" ;;
        esac
    done
    is "$bad" "" "$2: with 0 to 12 descriptors left"
}
starved script slurmd
HOST_SCRIPT=epilog starved script slurmd
unset SPANK_KOBOSHI_CONFIG SLURM_JOB_ID SLURMD_NODENAME HOST_SCRIPT
starved allocator sbatch -N1 job.sh
starved allocator sbatch $train
starved local srun $train true
starved remote slurmstepd
tap_done
