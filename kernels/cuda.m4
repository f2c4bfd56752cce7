# KB_CUDA: the toolkit, cuBLASLt, cuDNN and NCCL in the usual places and in
# pip's folders (nvidia/*/). Says what it found, and builds a kernel. Sets
# have_cuda, have_nccl, NVCC, NVCC_ARCH, CUDA_HOME, CUDA_CFLAGS, CUDA_LIBS,
# NCCL_CFLAGS, NCCL_LIBS.
AC_DEFUN([KB_CUDA], [
AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda=DIR], [CUDA toolkit, or no])], [], [with_cuda=auto])
AC_ARG_VAR([CUDA_ARCH], [GPU architectures for nvcc: 80, 90a, 100a, several with ; between])
: "${CUDA_ARCH=90a}"
have_cuda=no have_nccl=no kb_why=
AS_IF([test "$with_cuda" != no], [
    AS_CASE([$with_cuda], [auto|yes], [AC_PATH_PROG([NVCC], [nvcc], [no], [$PATH:/usr/local/cuda/bin])],
        [AC_PATH_PROG([NVCC], [nvcc], [no], [$with_cuda/bin])])
    AS_IF([test "$NVCC" = no], [kb_why="nvcc not found"],
        [CUDA_HOME=$(dirname $(dirname $(readlink -f $NVCC)))
        kb_pip=$(python3 -c 'import glob, site, sys, sysconfig
for d in site.getsitepackages() + [[sysconfig.get_paths()["purelib"], site.getusersitepackages()]]:
    print(*glob.glob(d + "/nvidia/*"))' 2>/dev/null)
        kb_prefixes="$CUDA_HOME $kb_pip /usr/local /usr"
        KB_CUDA_FIND([cuda_runtime_api.h], [libcudart.so], [cudart])
        KB_CUDA_FIND([cublasLt.h], [libcublasLt.so], [cublasLt])
        AS_IF([test -z "$kb_cudart_lib"], [kb_why="libcudart not found"],
            [test -z "$kb_cublasLt_lib"], [kb_why="libcublasLt not found"])])
    AS_IF([test -z "$kb_why"], [
        for kb_a in $(echo "$CUDA_ARCH" | tr ';' ' '); do
            NVCC_ARCH="$NVCC_ARCH -gencode arch=compute_$kb_a,code=sm_$kb_a"
        done
        AC_MSG_CHECKING([whether $NVCC builds a kernel for $CUDA_ARCH])
        echo '__global__ void k(float *x) { x[[threadIdx.x]] += 1; }' >conftest.cu
        AS_IF([$NVCC -std=c++17 $NVCC_ARCH -c conftest.cu -o conftest.cuo >conftest.err 2>&1],
            [AC_MSG_RESULT([yes])
            have_cuda=yes],
            [AC_MSG_RESULT([no])
            cat conftest.err >&AS_MESSAGE_LOG_FD
            kb_why="nvcc builds no kernel for $CUDA_ARCH (see config.log)"])
        rm -f conftest.cu conftest.cuo conftest.err])
    AS_IF([test $have_cuda = yes], [
        AC_DEFINE([HAVE_CUDA], [1], [CUDA toolkit])
        CUDA_CFLAGS="-isystem $kb_cudart_include -isystem $kb_cublasLt_include"
        CUDA_LIBS="$kb_cublasLt_lib $kb_cudart_lib"
        # the tables are weak symbols: pull them out of libkb_cuda.a
        CUDA_FORCE="-Wl,-u,device_backend_cuda -Wl,-u,ops_cuda_table"
        KB_CUDA_FIND([cudnn.h], [libcudnn.so], [cudnn])
        KB_CUDA_FIND([nccl.h], [libnccl.so], [nccl])
        KB_CUDA_FIND([nvrtc.h], [libnvrtc.so], [nvrtc])
        CUDNN_LIBS="$kb_cudnn_lib $kb_nvrtc_lib"
        AS_IF([test -n "$kb_nccl_lib" && test -n "$kb_nccl_include"], [have_nccl=yes
            NCCL_CFLAGS="-isystem $kb_nccl_include" NCCL_LIBS=$kb_nccl_lib
            NCCL_FORCE=-Wl,-u,coll_nccl_open
            AC_DEFINE([HAVE_NCCL], [1], [NCCL])])])
    AS_IF([test -n "$kb_why"], [AC_MSG_NOTICE([no CUDA: $kb_why])])])
AS_CASE([$with_cuda], [auto|no], [],
    [AS_IF([test $have_cuda = no], [AC_MSG_ERROR([--with-cuda: $kb_why])])])
AC_SUBST([NVCC]) AC_SUBST([NVCC_ARCH]) AC_SUBST([CUDA_HOME])
AC_SUBST([CUDA_CFLAGS]) AC_SUBST([CUDA_LIBS]) AC_SUBST([CUDNN_LIBS]) AC_SUBST([CUDA_FORCE])
AC_SUBST([NCCL_CFLAGS]) AC_SUBST([NCCL_LIBS]) AC_SUBST([NCCL_FORCE])
AM_CONDITIONAL([HAVE_CUDA], [test $have_cuda = yes])
AM_CONDITIONAL([HAVE_NCCL], [test $have_nccl = yes])
])

# KB_CUDA_FIND(HEADER, LIBRARY, NAME): kb_NAME_include, and kb_NAME_lib as the
# linker takes it (the file itself: pip's have no unversioned link).
AC_DEFUN([KB_CUDA_FIND], [
AC_MSG_CHECKING([for $1 and $2])
kb_$3_include= kb_$3_lib=
for kb_p in $kb_prefixes; do
    for kb_d in include targets/x86_64-linux/include; do
        AS_IF([test -z "$kb_$3_include" && test -f "$kb_p/$kb_d/$1"], [kb_$3_include=$kb_p/$kb_d])
    done
    for kb_f in $kb_p/lib64/$2* $kb_p/lib/$2* $kb_p/targets/x86_64-linux/lib/$2* $kb_p/lib/x86_64-linux-gnu/$2*; do
        AS_IF([test -z "$kb_$3_lib" && test -f "$kb_f"], [kb_$3_lib=$kb_f])
    done
done
AC_MSG_RESULT([${kb_$3_include:-no header}, ${kb_$3_lib:-no library}])
])
