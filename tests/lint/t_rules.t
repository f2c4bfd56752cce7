#!/bin/bash
# Rules of DESIGN.md that a search can hold: who may exit, log, read the
# environment, allocate on a device, or ask for CUDA.
. "$(dirname "$0")/lint.sh"

# not_in REGEX: the files of stdin whose paths do not match.
not_in() { grep -Ev "$1"; }
modules() { lint_files runner health kernels spank; }

mapfile -t code < <(modules | not_in '/main_[^/]*\.c$')

# A child between fork and exec ends itself by _exit, which is not exit. The
# plugin ends sbatch, as SPANK knows no refusal (DESIGN.md, the plugin).
mapfile -t files < <(printf '%s\n' "${code[@]}" | not_in '^spank/')
lint_none '(?<![\w.>])(?:exit|abort|quick_exit)\s*\(' \
    "only main_*.c ends the program" "${files[@]}"

mapfile -t files < <(printf '%s\n' "${code[@]}" |
    not_in '^runner/base/log\.|^runner/train/|^spank/')
lint_none '(?<!\w)log_(?:info|warn|error|debug|init)\s*\(' \
    "only main_*.c and the step loop log" "${files[@]}"
mapfile -t files < <(printf '%s\n' "${code[@]}" |
    not_in '^runner/base/log\.|^runner/cli/verb_|^runner/train/|^spank/')
lint_none '(?<!\w)(?:perror|fprintf\s*\(\s*stderr)' \
    "no module writes to standard error" "${files[@]}"

mapfile -t files < <(printf '%s\n' "${code[@]}" |
    not_in '^runner/plan/.*conf.*\.c$|^runner/base/(contract|log|proc)\.c$|^runner/comm/place\.c$|^spank/|^runner/cli/verb_')
lint_none '(?<!\w)(?:secure_)?getenv\s*\(|(?<!\w)environ\b' \
    "modules do not read the environment" "${files[@]}"

mapfile -t files < <(modules | not_in '^kernels/device')
lint_none 'cudaMalloc|cudaHostAlloc|cudaMallocHost|cudaMallocAsync|cuMemAlloc|cudaFree\b' \
    "only kernels/device allocates on a device" "${files[@]}"

mapfile -t files < <(modules | not_in '^kernels/|^runner/comm/comm_nccl\.c$|^health/active/')
lint_none '#\s*(?:if|ifdef|ifndef|elif).*HAVE_CUDA' \
    "HAVE_CUDA is asked for in kernels and comm_nccl.c only" "${files[@]}"

mapfile -t files < <(modules)
lint_none '(?<!\w)(?:strcat|sprintf|vsprintf|gets|strtok|tmpnam|mktemp|system|popen|alloca)\s*\(' \
    "no unbounded or shell-starting calls" "${files[@]}"
lint_none '(?<!\w)assert\s*\(' "no assert on data" "${files[@]}"
lint_none '(?<!\w)TODO|FIXME|XXX' "nothing is left to do in code" "${files[@]}"

mapfile -t files < <(lint_files spank health | not_in '^spank/(drain)\.|^$' |
    grep '^spank/')
found=$(grep -niE 'state=drain|NODE_STATE_DRAIN|slurm_update_node' "${files[@]}" /dev/null)
is "$found" "" "only spank/drain.c drains a node"

# A clone must not know where it was written.
found=$(grep -rnIE '/home/[a-z]+/|/root/|/Users/' \
    --include='*' --exclude-dir='build*' --exclude-dir=.git --exclude=.git --exclude-dir=.check \
    --exclude-dir=autom4te.cache --exclude-dir=tests . |
    grep -vE '^\./(configure|aclocal\.m4|Makefile\.in)' | head -n 5)
is "$found" "" "no absolute path of a developer's machine"
tap_done
