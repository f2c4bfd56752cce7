# health: a look at a node. libkb_health.a is for koboshi-health and for
# `koboshi health`.
noinst_LIBRARIES += libkb_health.a
libkb_health_a_SOURCES = \
	health/active.c health/active.h health/active_judge.c \
	health/capture.c health/capture.h \
	health/catalog.c health/catalog.h \
	health/compare.c health/compare.h health/compare_pairs.c \
	health/command.c health/health.h \
	health/child.c health/child.h \
	health/history.c health/history.h \
	health/finding.c health/finding.h \
	health/gpu.h health/gpu_record.c \
	health/gpu_model.c health/gpu_model.h \
	health/klog.c health/klog.h \
	health/klog_judge.c health/klog_judge.h \
	health/look.c \
	health/look_history.c health/look_history.h \
	health/pairs.c health/pairs.h \
	health/watch.c \
	health/probe.h health/probes.c \
	health/probe_active.c \
	health/probe_cpu.c \
	health/probe_disk.c \
	health/nvml.c health/nvml_abi.h \
	health/probe_gpu.c health/probe_gpu.h \
	health/gpu_names.c health/gpu_rules.c \
	health/probe_klog.c \
	health/probe_limits.c \
	health/probe_load.c \
	health/probe_memory.c \
	health/probe_net.c \
	health/probe_pairs.c \
	health/probe_time.c \
	health/probe_user.c \
	health/report.c health/report.h \
	health/site.c health/site.h \
	health/source.c health/source.h \
	health/trial.c health/trial.h \
	health/xid.c health/xid.h
libkb_health_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
HEALTH_LIBS = libkb_health.a $(BASE_LIBS) -lm -ldl

bin_PROGRAMS += koboshi-health
koboshi_health_SOURCES = health/main_koboshi_health.c
koboshi_health_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
koboshi_health_LDADD = $(HEALTH_LIBS)

# The GPUs' own trial, beside koboshi-health. Of the kernels it needs the device
# alone, not the operations, which take minutes to build.
if HAVE_CUDA
pkglibexec_PROGRAMS += koboshi-health-gpu
koboshi_health_gpu_SOURCES = health/active/main_koboshi_health_gpu.c \
	health/active/checks.cu health/active/checks.h \
	health/active/gpu.c health/active/gpu.h \
	health/active/host.c \
	health/active/lead.c health/active/lead.h \
	health/active/memory.c \
	health/active/peers.c \
	health/active/product.c \
	health/active/reduce.c \
	health/active/worker.c health/active/worker.h \
	health/pairs.c kernels/device_cuda.c
koboshi_health_gpu_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(CUDA_CFLAGS)
koboshi_health_gpu_LDADD = $(COMM_NCCL_LIBS) $(COMM_LIBS) $(KERNELS_LIBS) \
	$(CUDA_LIBS) $(BASE_LIBS) $(CRYPTO_LIBS) -lstdc++
-include health/active/*.o.d
CLEANFILES += health/active/*.o.d
endif
