# supervise: the supervisor and the node watcher. No CUDA, no MPI, no NCCL.
if HAVE_SLURM
noinst_LIBRARIES += libkb_supervise.a
libkb_supervise_a_SOURCES = \
	health/finding.c health/finding.h \
	runner/supervise/act.c \
	runner/supervise/attempt.c runner/supervise/attempt.h \
	runner/supervise/budget.c runner/supervise/budget.h \
	runner/supervise/classify.c runner/supervise/classify.h \
	runner/supervise/ctl.c runner/supervise/ctl.h \
	runner/supervise/decide.c runner/supervise/decide.h \
	runner/supervise/launch.c runner/supervise/launch.h \
	runner/supervise/link.c runner/supervise/link.h \
	runner/supervise/node.h \
	runner/supervise/node_check.c \
	runner/supervise/node_child.c runner/supervise/node_child.h \
	runner/supervise/node_health.c runner/supervise/node_health.h \
	runner/supervise/node_kill.c \
	runner/supervise/node_main.c runner/supervise/node_main.h \
	runner/supervise/node_quorum.c runner/supervise/node_quorum.h \
	runner/supervise/node_ranks.c \
	runner/supervise/node_stall.c \
	runner/supervise/program.c runner/supervise/program.h \
	runner/supervise/rank_main.c runner/supervise/rank_main.h \
	runner/supervise/station.c runner/supervise/station.h \
	runner/supervise/story.c \
	runner/supervise/sup.h \
	runner/supervise/sup_cut.c \
	runner/supervise/sup_health.c \
	runner/supervise/sup_nodes.c \
	runner/supervise/sup_notice.c \
	runner/supervise/sup_open.c \
	runner/supervise/sup_pump.c \
	runner/supervise/sup_status.c \
	runner/supervise/sup_watch.c \
	runner/supervise/wire.c runner/supervise/wire.h
libkb_supervise_a_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CFLAGS)
libkb_supervise_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(CRYPTO_CFLAGS)
SUPERVISE_LIBS = libkb_supervise.a libkb_ckpt.a $(NOTICE_LIBS) \
	$(DATA_LIBS) $(PLAN_LIBS) $(CRYPTO_LIBS) $(SLURM_LIBS) $(XXHASH_LIBS) -lpthread
bin_PROGRAMS += koboshi-supervise
koboshi_supervise_SOURCES = runner/supervise/main_supervise.c
koboshi_supervise_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CFLAGS)
koboshi_supervise_LDADD = $(SUPERVISE_LIBS)
endif
