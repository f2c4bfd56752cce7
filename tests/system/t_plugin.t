#!/bin/bash
# The plugin on a real cluster with the real planner: what reaches a job, what
# is refused, and that a job which did not ask notices nothing.
. "$(dirname "$0")/../cluster/under_slurm.sh"
export TEST_TIME_S=150
test_under_slurm 3
plugin=$(awk '{print $2}' "$CLUSTER_DIR/etc/plugstack.conf")
[ -f "$plugin" ] || skip_all "the plugin is not built"
cd "$CLUSTER_DIR" || exit 1
koboshi=$(dirname "$plugin")/../../bin/koboshi
seq 20000 >text.txt
"$koboshi" data build --quiet --tokenizer byte --output corpus text.txt >/dev/null
cat >run.yaml <<'YAML'
run: {dir: out}
data: {train: corpus}
model: {preset: llama-nano}
train: {steps: 100, global_batch: 16, micro_batch: 4}
YAML
printf '#!/bin/bash\nenv | sort\n' >show.sh
submit() { timeout 40 sbatch -Q -W "$@"; }
# refused NAME REGEX OPTIONS...: exit code 1, words, nothing submitted.
refused() {
    local name=$1 regex=$2 out rc
    shift 2
    out=$(timeout 20 "$@" 2>&1 </dev/null)
    rc=$?
    is $rc 1 "$name: exit code 1"
    like "$out" "$regex" "$name: says why"
}

# ---- A job that did not ask ----------------------------------------------
# What differs between any two jobs.
same() { grep -vE '^(SLURM_JOB_?ID|SLURM_STEP_LAUNCHER_PORT|SLURM_SRUN_COMM_PORT|SLURM_TASK_PID|SLURM_JOB_(START|END)_TIME|SLURM_LAUNCH|_|SHLVL)=' | sort; }
srun -N1 -w node1 env | same >with
sbatch -Q -W -w node1 -o batch.with show.sh
# Milliseconds of a step on all nodes, the middle one of five.
launch_ms() {
    local i begin
    for i in 1 2 3 4 5; do
        begin=$(date +%s%N)
        srun -Q -N3 true 2>/dev/null
        echo $((($(date +%s%N) - begin) / 1000000))
    done | sort -n | sed -n 3p
}
took_with=$(launch_ms)
cp "$CLUSTER_DIR/etc/plugstack.conf" plugstack.kept
: >"$CLUSTER_DIR/etc/plugstack.conf"
took_without=$(launch_ms)
srun -N1 -w node1 env | same >without
sbatch -Q -W -w node1 -o batch.without show.sh
cp plugstack.kept "$CLUSTER_DIR/etc/plugstack.conf"
is "$(diff with without)" "" "a step without --llm-train has the environment of a cluster without the plugin"
is "$(diff <(same <batch.with) <(same <batch.without))" "" "a batch script too"
diag "srun -N3 true takes $took_with ms with the plugin, $took_without without"

# ---- A job that did --------------------------------------------------------
ok "a script of one's own" submit -N2 --ntasks-per-node=2 --llm-train=run.yaml --llm-set=train.steps=5 \
    --llm-set=optim.lr=0.1 -x node3 --llm-health=off -o own <<'EOF'
#!/bin/bash
echo "set=${KOBOSHI_SET//$'\n'/;}"
env | grep -E '^(KOBOSHI_CONFIG|KOBOSHI_USER_EXCLUDE|KOBOSHI_HEALTH|RANK|WORLD_SIZE)=' | sort
srun -N2 bash -c 'echo task $RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $NODE_RANK $MASTER_ADDR'
srun -N1 -n1 -w node2 bash -c 'echo small $RANK/$WORLD_SIZE $MASTER_ADDR'
RANK=5 srun -N1 -n1 bash -c 'echo preset $RANK $WORLD_SIZE'
EOF
is "$(grep -vE '^(task|small|preset)|koboshi: kept' own)" "set=train.steps=5;optim.lr=0.1
KOBOSHI_CONFIG=$CLUSTER_DIR/run.yaml
KOBOSHI_HEALTH=off
KOBOSHI_USER_EXCLUDE=node3" "the script gets the options, and no rank"
is "$(grep ^task own | sort)" "task 0/4 0/2 0 node1
task 1/4 1/2 0 node1
task 2/4 0/2 1 node1
task 3/4 1/2 1 node1" "tasks get their ranks"
is "$(grep ^small own)" "small 0/1 node2" "of the step, not the job"
is "$(grep ^preset own)" "preset 5 1" "what is preset stays"
like "$(cat own)" "koboshi: kept as set by the user: RANK=5" "and that is said"

ok "--export=NONE" submit -N1 --export=NONE --llm-train=run.yaml --llm-spares=0 -o exported <<'EOF'
#!/bin/bash
/usr/bin/env | /usr/bin/grep -E '^KOBOSHI_'
/usr/bin/srun /usr/bin/env | /usr/bin/grep -E '^(KOBOSHI_CONFIG|RANK)='
EOF
is "$(sort -u exported)" "KOBOSHI_CONFIG=$CLUSTER_DIR/run.yaml
KOBOSHI_SPARES=0
RANK=0" "keeps the options all the same"

printf 'node3\nnode1\nnode2\n' >hosts
is "$(SLURM_HOSTFILE=hosts srun -n3 -m arbitrary --llm-train=run.yaml \
    --llm-set=train.global_batch=12 --llm-health=off \
    bash -c 'test $RANK = 0 && echo $(hostname) $MASTER_ADDR; true' 2>/dev/null)" \
    "node3 node3" "under -m arbitrary the address is rank 0's"
like "$(salloc -N1 --llm-train=run.yaml --llm-health=off env 2>&1)" \
    "KOBOSHI_CONFIG=$CLUSTER_DIR/run.yaml" "salloc's command gets the options"

# ---- Refusals ---------------------------------------------------------------
before=$(squeue -h -a -t all -o %i | wc -l)
refused "an unknown key" "--llm-set.*train.stepz.*train.steps" \
    sbatch -N2 --llm-train=run.yaml --llm-set=train.stepz=1
few=--llm-set=train.global_batch=8
refused "a batch that is too small" "train.global_batch.*give 12" \
    sbatch -N3 --llm-train=run.yaml $few
refused "more memory than is asked for" "a rank needs .*MiB and has 20.0 MiB" \
    sbatch -N2 --mem=20M --llm-train=run.yaml
printf '#!/bin/sh\n#SBATCH -N 3\n' >three.sh
refused "nodes in a script's file" "train.global_batch.*give 12" \
    sbatch --llm-train=run.yaml $few three.sh
refused "an option's value" "--llm-spares.*'some'" \
    sbatch -N2 --llm-train=run.yaml --llm-spares=some
refused "no such file" "nothere.yaml" sbatch -N1 --llm-train=nothere.yaml
refused "an array without a run directory a task" "array|run.dir" \
    sbatch -N1 --array=0-1 --llm-train=run.yaml
refused "srun" "train.global_batch" srun -N3 --llm-train=run.yaml $few true
refused "salloc" "train.global_batch" salloc -N3 --llm-train=run.yaml $few true
out=$(sbatch -N2 --llm-train=run.yaml --llm-dry-run 2>&1 </dev/null)
is $? 0 "a dry run"
like "$out" "ranks +2 on 2 nodes" "prints the plan"
is "$(squeue -h -a -t all -o %i | wc -l)" "$before" "nothing was submitted by any of these"

# ---- The template -------------------------------------------------------------
id=$(sbatch --parsable -H -N1 --llm-train=run.yaml </dev/null)
is "$(scontrol write batch_script "$id" - | head -n 1)" "#!/bin/bash" "without a script there is one"
like "$(scontrol write batch_script "$id" -)" "koboshi-supervise" "that calls the supervisor"
like "$(scontrol show job "$id")" "Requeue=1" "and can be requeued"
scancel "$id"
id=$(sbatch --parsable -H -N1 --llm-train=run.yaml <&-)
like "$(scontrol write batch_script "$id" -)" "koboshi-supervise" "with standard input closed too"
scancel "$id"
id=$(sbatch --parsable -H -N1 --llm-train=run.yaml <show.sh)
nok "a script on standard input wins" grep -q koboshi-supervise \
    <(scontrol write batch_script "$id" -)
scancel "$id"
id=$(sbatch --parsable -H -N1 --llm-train=run.yaml --wrap true </dev/null)
nok "--wrap wins" grep -q koboshi-supervise <(scontrol write batch_script "$id" -)
scancel "$id"
# Slurm's own default here is to requeue: a site where it is not.
printf '#!/bin/bash\n#SBATCH --no-requeue\nenv\n' >stubborn.sh
id=$(sbatch --parsable -H -N1 --llm-train=run.yaml stubborn.sh 2>/dev/null)
like "$(scontrol show job "$id")" "Requeue=0" "a script's own #SBATCH lines win"
scancel "$id"
submit -N1 -o mine --llm-train=run.yaml --llm-health=off show.sh 2>/dev/null
nok "the defaults for it do not reach its environment" grep -q '^SBATCH_' mine
id=$(script -qec "sbatch --parsable -H -N1 --llm-train=run.yaml" /dev/null </dev/null 2>/dev/null | tr -d '\r' | tail -n 1)
like "$(scontrol write batch_script "$id" - 2>&1)" "koboshi-supervise" "on a terminal there is one"
scancel "$id" 2>/dev/null
tap_done
