#!/bin/bash
# build - test_ops_cuda, koboshi-train and koboshi without autotools, on a
# machine with nvcc; DEPS is what stage.sh made.
#
#   tests/gpu/build.sh DEPS OUT [ops|train]...
#
# No PMIx, MPI or Slurm: one rank, or ranks wired by the environment. No MLflow
# and no notices (libcurl): calling them would crash.
deps=$(realpath "$1") out=$2
shift 2
want=${*:-ops train}
src=$deps/src cuda=/usr/local/cuda
mkdir -p "$out/obj"
out=$(realpath "$out")
exec 3>"$out/build.log"

cat >"$out/obj/config.h" <<END
#define HAVE_CUDA 1
#define HAVE_SDPA 1
#define HAVE_NCCL 1
#define VERSION "0.1.0"
END
cudnn=$(ls $cuda/lib64/libcudnn.so.9 /lib/x86_64-linux-gnu/libcudnn.so.9 2>/dev/null | head -1)
nccl=$(ls $cuda/lib64/libnccl.so.2 /lib/x86_64-linux-gnu/libnccl.so.2 2>/dev/null | head -1)
[ -f $cuda/include/nccl.h ] || [ -f /usr/include/nccl.h ] || sed -i '/NCCL/d' "$out/obj/config.h"

inc="-I$src -I$out/obj -I$deps/include -I$cuda/include"
cc="gcc -std=gnu17 -O2 -D_GNU_SOURCE $inc -DKB_LIBEXECDIR=\"/tmp\" -DKB_BINDIR=\"/tmp\" \
 -DKB_DATADIR=\"/tmp\" -DKB_SYSCONFDIR=\"/etc\""
exact="-ffp-contract=off -fno-math-errno -fno-trapping-math -ftree-vectorize -fvect-cost-model=dynamic"
nv="nvcc -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a -I$src"
cd "$src" || exit 1
{
    for f in kernels/*.cu; do
        extra=; [ "$f" = kernels/cuda_fill.cu ] && extra=-fmad=false
        echo "$nv $extra -c $f -o $out/obj/$(basename "$f" .cu).o"
    done
    echo "g++ -std=c++17 -O1 $inc -c kernels/sdpa_cudnn.cpp -o $out/obj/sdpa.o"
    for f in kernels/cuda_*.c kernels/device*.c kernels/pool.c kernels/ops.c kernels/exec.c \
        kernels/cpu_fill.c; do
        echo "$cc $exact -c $f -o $out/obj/k_$(basename "$f" .c).o"
    done
    for f in linear norm qk attention swiglu embed head update table; do
        echo "$cc $exact -c kernels/cpu_$f.c -o $out/obj/f32_$f.o"
        echo "$cc $exact -DKB_REAL_F64 -c kernels/cpu_$f.c -o $out/obj/f64_$f.o"
    done
    for f in tests/kernels/*.c; do
        echo "$cc -c $f -o $out/obj/t_$(basename "$f" .c).o"
    done
    for d in base plan comm ckpt data model optim journal train; do
        for f in runner/$d/*.c; do
            echo "$cc -c $f -o $out/obj/r_${d}_$(basename "$f" .c).o"
        done
    done
} | grep -v -E 'control_pmix|mlflow|notice' | xargs -P "$(nproc)" -I{} sh -c '{} || echo "FAILED: {}"' >&3 2>&1
for d in control_pmix; do $cc -c runner/comm/$d.c -o "$out/obj/r_comm_$d.o" >&3 2>&1; done

kernels="$out/obj/cuda_*.o $out/obj/k_*.o $out/obj/f32_*.o $out/obj/f64_*.o $out/obj/sdpa.o"
libs="-L$deps/lib -L$cuda/lib64 -lcublasLt -lcudart -lnvrtc $cudnn -lopenblas -lstdc++ -lpthread -lm -ldl
 -Wl,-rpath,$deps/lib:$cuda/lib64 -Wl,--allow-shlib-undefined"
for w in $want; do
    case $w in
    ops) gcc -o "$out/test_ops_cuda" "$out"/obj/t_*.o $kernels $libs >&3 2>&1 ;;
    train) gcc -o "$out/koboshi-train" "$out"/obj/r_*.o $kernels $libs -ljansson -lyaml -lxxhash \
        -Wl,--unresolved-symbols=ignore-in-object-files $nccl >&3 2>&1 ;;
    esac
done
grep -E 'FAILED|error|undefined' "$out/build.log" | head -20
ls -la "$out"/koboshi-train "$out"/test_ops_cuda 2>&1
