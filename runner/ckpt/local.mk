# ckpt: checkpoints. catalog.c and what it needs use neither comm nor kernels,
# so that the supervisor can link them.
noinst_LIBRARIES += libkb_ckpt.a
libkb_ckpt_a_SOURCES = runner/ckpt/ckpt.h runner/ckpt/catalog.h \
	runner/ckpt/box.c runner/ckpt/box.h \
	runner/ckpt/move.c runner/ckpt/move.h \
	runner/ckpt/safetensors.c runner/ckpt/safetensors.h \
	runner/ckpt/manifest.c runner/ckpt/manifest.h \
	runner/ckpt/layout.c runner/ckpt/layout.h \
	runner/ckpt/writer.c runner/ckpt/writer.h runner/ckpt/save.c \
	runner/ckpt/reader.c runner/ckpt/reader.h \
	runner/ckpt/fill.c runner/ckpt/fill.h runner/ckpt/load.c \
	runner/ckpt/fences.c runner/ckpt/fences.h \
	runner/ckpt/catalog.c runner/ckpt/retain.c runner/ckpt/inspect.c \
	runner/ckpt/export.c runner/ckpt/import.c \
	runner/ckpt/half.c runner/ckpt/half.h
libkb_ckpt_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
CKPT_LIBS = libkb_ckpt.a $(XXHASH_LIBS) -lpthread
