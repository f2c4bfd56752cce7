# comm: ranks, groups, control messages, collectives.
noinst_LIBRARIES += libkb_comm.a
libkb_comm_a_SOURCES = runner/comm/comm.h runner/comm/tables.h \
	runner/comm/comm.c runner/comm/groups.c runner/comm/bounded.c \
	runner/comm/place.c runner/comm/place.h \
	runner/comm/sum.c \
	runner/comm/wire.c runner/comm/wire.h \
	runner/comm/proof.c runner/comm/proof.h \
	runner/comm/server.c runner/comm/server.h \
	runner/comm/server_private.h runner/comm/requests.c \
	runner/comm/tcp.c runner/comm/tcp.h \
	runner/comm/control_single.c runner/comm/control_env.c \
	runner/comm/control_pmix.c \
	runner/comm/comm_mpi.c
libkb_comm_a_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS) $(MPI_CFLAGS)
COMM_LIBS = libkb_comm.a $(MPI_LIBS) $(PMIX_LIBS) -lpthread

# NCCL, linked only into programs that train: $(COMM_NCCL_LIBS) before
# $(COMM_LIBS).
if HAVE_NCCL
EXTRA_LIBRARIES += libkb_nccl.a
libkb_nccl_a_SOURCES = runner/comm/comm_nccl.c
libkb_nccl_a_CFLAGS = $(AM_CFLAGS) $(NCCL_CFLAGS) $(CUDA_CFLAGS)
COMM_NCCL_LIBS = $(NCCL_FORCE) libkb_nccl.a $(NCCL_LIBS)
else
COMM_NCCL_LIBS =
endif
