# runner/optim
noinst_LIBRARIES += libkb_optim.a
libkb_optim_a_SOURCES = \
	runner/optim/optim.c runner/optim/optim.h runner/optim/optim_private.h \
	runner/optim/scaler.c runner/optim/scaler.h \
	runner/optim/shard.c runner/optim/reduce.c runner/optim/views.c \
	runner/optim/schedule.c
libkb_optim_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
