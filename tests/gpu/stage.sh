#!/bin/bash
# stage - collect what building on another machine needs: this tree's sources,
# and headers and libraries of packages that it may lack.
#
#   tests/gpu/stage.sh FOLDER [CUDNN_FRONTEND_INCLUDE]
set -e
root=$(cd "$(dirname "$0")/../.." && pwd)
to=$1 frontend=$2 gnu=/usr/lib/x86_64-linux-gnu
rm -rf "$to"
mkdir -p "$to"/{include,lib,src}
(cd "$root" && git ls-files -co --exclude-standard kernels runner tests/tap.h \
    tests/kernels tests/gpu tests/model tests/plan | tar cf - -T -) | tar xf - -C "$to/src"
cp /usr/include/{jansson,jansson_config,yaml,xxhash,xxh3}.h "$to/include/"
cp -r /usr/include/x86_64-linux-gnu/curl "$to/include/"
cp /usr/include/x86_64-linux-gnu/openblas-pthread/{cblas,openblas_config}.h "$to/include/"
for l in libjansson.so.4 libyaml-0.so.2 libxxhash.so.0 libopenblas.so.0 \
    libgfortran.so.5 libquadmath.so.0; do
    cp -L $gnu/$l "$to/lib/"
    n=${l%%.so*}
    ln -s $l "$to/lib/${n%-0}.so"
done
if [ -n "$frontend" ]; then
    cp -r "$frontend"/* "$to/include/"
    [ -f /usr/local/cuda/include/cudnn.h ] && cp /usr/local/cuda/include/cudnn*.h "$to/include/"
fi
du -sh "$to"
