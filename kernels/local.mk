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
	kernels/exec.h kernels/tuned.h kernels/device_backend.h kernels/exact.h \
	kernels/device.c kernels/device_cpu.c kernels/pool.c kernels/pool.h \
	kernels/ops.c kernels/exec.c kernels/cpu_fill.c \
	kernels/cuda_sizes.c kernels/cuda_sizes.h
libkb_kernels_a_CFLAGS = $(KERNELS_CFLAGS)
libkb_cpu_f32_a_SOURCES = $(cpu_sources)
libkb_cpu_f32_a_CFLAGS = $(KERNELS_CFLAGS)
libkb_cpu_f64_a_SOURCES = $(cpu_sources)
libkb_cpu_f64_a_CFLAGS = $(KERNELS_CFLAGS) -DKB_REAL_F64
# Order matters: tables use libkb_kernels.a's pool, exec uses the tables.
KERNELS_LIBS = libkb_kernels.a libkb_cpu_f32.a libkb_cpu_f64.a \
	libkb_kernels.a $(OPENBLAS_LIBS) -lpthread -lm

# Attention by cuDNN: one C++ file with a C face. No exception leaves it.
# Both are built only for programs that link them: nvcc takes minutes.
EXTRA_LIBRARIES =
if HAVE_SDPA
EXTRA_LIBRARIES += libkb_sdpa.a
libkb_sdpa_a_SOURCES = kernels/sdpa.h kernels/sdpa_cudnn.cpp
libkb_sdpa_a_CPPFLAGS = $(AM_CPPFLAGS) $(SDPA_CPPFLAGS)
libkb_sdpa_a_CXXFLAGS = -std=c++17 -O2
SDPA_LIBS = libkb_sdpa.a $(CUDNN_LIBS) -lstdc++
endif

# CUDA in a library of its own, linked only into programs that train:
# $(KERNELS_CUDA_LIBS) before $(KERNELS_LIBS). Programs without it see
# ops_cuda() == NULL.
EXTRA_DIST += kernels/cuda.m4 kernels/cuda.h kernels/cuda_device.cuh
if HAVE_CUDA
EXTRA_LIBRARIES += libkb_cuda.a
libkb_cuda_a_SOURCES = kernels/cuda.h kernels/cuda_device.cuh \
	kernels/device_cuda.c kernels/cuda_table.c kernels/cuda_product.c \
	kernels/cuda_product.h kernels/cuda_choose.c kernels/cuda_linear.c \
	kernels/cuda_head_loss.c kernels/cuda_rows.cu kernels/cuda_norm.cu \
	kernels/cuda_qk.cu kernels/cuda_attention.cu kernels/cuda_attention.cuh \
	kernels/cuda_flash.cu kernels/cuda_swiglu.cu \
	kernels/cuda_embed.cu kernels/cuda_head.cu \
	kernels/cuda_head_cluster.cu kernels/cuda_update.cu \
	kernels/cuda_fill.cu
libkb_cuda_a_CFLAGS = $(AM_CFLAGS) $(CUDA_CFLAGS)
KERNELS_CUDA_LIBS = $(CUDA_FORCE) \
	libkb_cuda.a $(SDPA_LIBS) $(CUDA_LIBS) -lstdc++
kernels/cuda_fill.o: NVCC_EXTRA = -fmad=false
else
KERNELS_CUDA_LIBS =
endif

NVCC_V = $(NVCC_V_@AM_V@)
NVCC_V_ = $(NVCC_V_@AM_DEFAULT_V@)
NVCC_V_0 = @echo "  NVCC    " $@;
.cu.o:
	@$(MKDIR_P) $(@D)
	$(NVCC_V)$(NVCC) -std=c++17 -O3 $(NVCC_ARCH) $(NVCC_EXTRA) \
		-I$(top_srcdir) -MD -MF $@.d -MT $@ \
		--compiler-options -Wall -c -o $@ $<
CLEANFILES += kernels/*.o.d
-include kernels/*.o.d
