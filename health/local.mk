# health: a look at a node. libkb_health.a is for koboshi-health and for
# `koboshi health`.
noinst_LIBRARIES += libkb_health.a
libkb_health_a_SOURCES = \
	health/capture.c health/capture.h \
	health/catalog.c health/catalog.h \
	health/compare.c health/compare.h \
	health/command.c health/health.h \
	health/finding.c health/finding.h \
	health/gpu.h health/gpu_record.c \
	health/klog.c health/klog.h \
	health/look.c \
	health/probe.h health/probes.c \
	health/probe_cpu.c \
	health/probe_disk.c \
	health/nvml.c health/nvml_abi.h \
	health/probe_gpu.c \
	health/probe_klog.c \
	health/probe_limits.c \
	health/probe_load.c \
	health/probe_memory.c \
	health/probe_net.c \
	health/probe_time.c \
	health/probe_user.c \
	health/report.c \
	health/site.c health/site.h \
	health/source.c health/source.h \
	health/xid.c health/xid.h
libkb_health_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
HEALTH_LIBS = libkb_health.a $(BASE_LIBS)

bin_PROGRAMS += koboshi-health
koboshi_health_SOURCES = health/main_koboshi_health.c
koboshi_health_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
koboshi_health_LDADD = $(HEALTH_LIBS)
