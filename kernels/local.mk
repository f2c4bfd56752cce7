# kernels: mathematics on buffers. cpu_*.c are compiled twice, into the tables
# ops_cpu_f32 and ops_cpu_f64. Bits must not depend on the machine: no fused
# multiply-add, no -ffast-math; the flags below change speed alone.
KERNELS_CFLAGS = $(AM_CFLAGS) $(OPENBLAS_CFLAGS) -ffp-contract=off \
	-fno-math-errno -fno-trapping-math -ftree-vectorize \
	-fvect-cost-model=dynamic -funroll-loops
cpu_sources = kernels/cpu.h kernels/cpu_linear.c kernels/cpu_norm.c \
	kernels/cpu_qk.c kernels/cpu_attention.c kernels/cpu_swiglu.c \
	kernels/cpu_embed.c kernels/cpu_head.c kernels/cpu_update.c \
	kernels/cpu_table.c
noinst_LIBRARIES += libkb_kernels.a libkb_cpu_f32.a libkb_cpu_f64.a
libkb_kernels_a_SOURCES = kernels/device.h kernels/ops.h kernels/view.h \
	kernels/exec.h kernels/device_backend.h kernels/exact.h \
	kernels/device.c kernels/device_cpu.c kernels/pool.c kernels/pool.h \
	kernels/ops.c kernels/exec.c kernels/cpu_fill.c
libkb_kernels_a_CFLAGS = $(KERNELS_CFLAGS)
libkb_cpu_f32_a_SOURCES = $(cpu_sources)
libkb_cpu_f32_a_CFLAGS = $(KERNELS_CFLAGS)
libkb_cpu_f64_a_SOURCES = $(cpu_sources)
libkb_cpu_f64_a_CFLAGS = $(KERNELS_CFLAGS) -DKB_REAL_F64
# Order matters: tables use libkb_kernels.a's pool, exec uses the tables.
KERNELS_LIBS = libkb_kernels.a libkb_cpu_f32.a libkb_cpu_f64.a \
	libkb_kernels.a $(OPENBLAS_LIBS) -lpthread -lm

# Attention by cuDNN: one C++ file with a C face. No exception leaves it.
if HAVE_SDPA
noinst_LIBRARIES += libkb_sdpa.a
libkb_sdpa_a_SOURCES = kernels/sdpa.h kernels/sdpa_cudnn.cpp
libkb_sdpa_a_CPPFLAGS = $(AM_CPPFLAGS) $(SDPA_CPPFLAGS)
libkb_sdpa_a_CXXFLAGS = -std=c++17 -O2
SDPA_LIBS = libkb_sdpa.a -lcudnn -lnvrtc -lstdc++
endif
