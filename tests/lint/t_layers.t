#!/bin/bash
# Who may include whom: DESIGN.md section 2, held against the sources.
. "$(dirname "$0")/lint.sh"

# folder: what it may include besides its own headers and the C library. A
# folder's name stands for its public headers below; a file for itself alone.
layers='
spank:            runner/base/err.h runner/base/str.h runner/base/clock.h
spank:            runner/base/file.h runner/base/proc.h runner/base/contract.h
spank:            health/finding.h
runner/cli:       runner/supervise runner/train runner/serve runner/ckpt
runner/cli:       runner/optim runner/model runner/data runner/comm
runner/cli:       runner/plan runner/journal runner/base health
runner/supervise: runner/base runner/plan runner/journal runner/ckpt/catalog.h
runner/supervise: runner/data/tokenizer.h health/finding.h
runner/train:     runner/data runner/model runner/optim runner/comm runner/ckpt
runner/train:     runner/journal runner/plan kernels/device.h kernels/exec.h
runner/train:     runner/base
runner/serve:     runner/model runner/data/tokenizer.h runner/ckpt runner/comm
runner/serve:     runner/plan kernels/device.h kernels/exec.h runner/base
runner/ckpt:      runner/comm runner/plan kernels/device.h kernels/view.h
runner/ckpt:      runner/base
runner/optim:     kernels runner/comm runner/plan runner/base
runner/model:     kernels runner/comm runner/plan runner/base
runner/data:      runner/plan runner/base
runner/comm:      runner/plan kernels/device.h runner/base
runner/plan:      runner/base
runner/journal:   runner/base
health:           runner/base
health/active:    kernels runner/comm runner/base health/pairs.h
kernels:
runner/base:
'

# What a folder shows to others; "all" is all of it.
public='
spank:
runner/cli:
runner/supervise: supervise.h
runner/train:     train.h
runner/serve:     serve.h sample.h
runner/ckpt:      ckpt.h catalog.h
runner/optim:     optim.h
runner/model:     model.h
runner/data:      data.h tokenizer.h tokens.h build.h corpus.h learn.h tokens.h
runner/comm:      comm.h
runner/plan:      plan.h shape.h batch.h sizes.h share.h schedule.h
runner/journal:   journal.h chronicle.h mlflow.h notice.h
health:           health.h finding.h
health/active:
kernels:          ops.h device.h exec.h view.h
runner/base:      all
'

# System headers that only some files may include.
guarded='
mpi\.h:                 runner/comm/comm_mpi.c
nccl\.h:                runner/comm/comm_nccl.c health/active/ tests/gpu/
pmix.*\.h:              runner/comm/ tests/cluster/pmix_hello.c
cuda[^>]*\.h|cublas[^>]*\.h|cudnn[^>]*\.h: kernels/ runner/comm/comm_nccl.c health/active/ tests/gpu/
nvml\.h:                health/
jansson\.h:             runner/ health/
sentencepiece_.*\.h:     runner/data/sentencepiece.cc
yaml\.h:                runner/base/
slurm/spank\.h:         spank/ tests/spank/
slurm/slurm\.h:         spank/ runner/supervise/ runner/cli/
curl/.*:                runner/journal/ runner/supervise/
cblas.*\.h:             kernels/
'

# rows TABLE KEY: the words of all its rows.
rows() { sed -n "s|^$2: *||p" <<<"$1" | tr '\n' ' '; }

# folder_of FILE: the row that it belongs to, the deepest that fits.
folder_of() {
    local dir
    dir=$(dirname "$1")
    until [ "$dir" = . ] || grep -q "^$dir:" <<<"$layers"; do
        dir=$(dirname "$dir")
    done
    echo "$dir"
}

# Is header $2 public in folder $1?
is_public() {
    local name=${2#"$1"/} shown
    for shown in $(rows "$public" "$1"); do
        [ "$shown" != all ] && [ "$shown" != "$name" ] || return 0
    done
    return 1
}

# may_include FOLDER HEADER
may_include() {
    local owner word
    owner=$(folder_of "$2")
    [ "$owner" != "$1" ] || return 0
    for word in $(rows "$layers" "$1"); do
        [ "$word" != "$2" ] || return 0
        [ "$word" = "$owner" ] && is_public "$owner" "$2" && return 0
    done
    return 1
}

# Lines "FILE HEADER" for includes written with quotes, comments left out.
own_includes() {
    perl -0777 -ne 's{/\*.*?\*/}{}gs;
        print "$ARGV $1\n" while /^\s*#\s*include\s+"([^"]+)"/mg' "$@"
}

broken=
while read -r file header; do
    folder=$(folder_of "$file")
    case $header in config.h) continue ;; esac
    if [ ! -f "$header" ]; then
        broken+="$file: '$header' is not a path from the top"$'\n'
    elif ! may_include "$folder" "$header"; then
        broken+="$file: $folder may not include '$header'"$'\n'
    fi
done < <(own_includes $(lint_files spank runner kernels health))
is "$broken" "" "every include is one that the layer table allows"

missing=
for dir in spank kernels health runner/*/; do
    grep -q "^${dir%/}:" <<<"$layers" || missing+="$dir "
done
is "$missing" "" "every folder has a row in the table"

broken=
while IFS= read -r row; do
    [ -n "$row" ] || continue
    regex=${row%%:*}
    where=${row#*:}
    while IFS=: read -r file line _; do
        good=1
        for place in $where; do
            case $file in "$place"*) good=0 ;; esac
        done
        [ $good = 0 ] || broken+="$file:$line: <$regex> belongs to$where"$'\n'
    done < <(grep -nE "^ *# *include +[<\"]($regex)[>\"]" \
        $(lint_files spank runner kernels health tests) /dev/null)
done <<<"$guarded"
is "$broken" "" "libraries are included only where they belong"

# The plugin lives in other people's daemons: it may need libc and libslurm.
plugin=$(find "$LINT_BUILD" -maxdepth 2 -name spank_koboshi.so | head -n 1)
if [ -n "$plugin" ]; then
    is "$(readelf -d "$plugin" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' |
        grep -Ev '^(libc|libm|libslurm|ld-linux.*)\.so|^libslurm-' | paste -sd ' ')" \
        "" "the plugin needs no library but libc and Slurm's"
    is "$(nm -D --defined-only "$plugin" | awk '{print $3}' | sed 's/@.*//' |
        grep -Ev '^(plugin_name|plugin_type|plugin_version|spank_plugin_version|slurm_spank_[a-z_]+|spank_options|KOBOSHI.*|koboshi.*)$' | paste -sd ' ')" \
        "" "the plugin exports SPANK's symbols only"
else
    skip "the plugin is not built"
fi
tap_done
