# comm: ranks, groups, control messages, collectives.
noinst_LIBRARIES += libkb_comm.a
libkb_comm_a_SOURCES = runner/comm/comm.h runner/comm/tables.h \
	runner/comm/comm.c runner/comm/groups.c runner/comm/bounded.c \
	runner/comm/place.c runner/comm/place.h \
	runner/comm/sum.c \
	runner/comm/wire.c runner/comm/wire.h \
	runner/comm/proof.c runner/comm/proof.h \
	runner/comm/server.c runner/comm/server.h \
	runner/comm/tcp.c runner/comm/tcp.h \
	runner/comm/control_single.c runner/comm/control_env.c \
	runner/comm/control_pmix.c \
	runner/comm/comm_mpi.c runner/comm/comm_nccl.c
libkb_comm_a_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(MPI_CFLAGS)
COMM_LIBS = libkb_comm.a $(MPI_LIBS) $(PMIX_LIBS) -lpthread
