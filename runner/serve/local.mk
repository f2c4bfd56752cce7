# runner/serve
noinst_LIBRARIES += libkb_serve.a
libkb_serve_a_SOURCES = runner/serve/serve.c runner/serve/serve.h \
	runner/serve/sample.c runner/serve/sample.h
pkglibexec_PROGRAMS += koboshi-generate
koboshi_generate_SOURCES = runner/serve/main_generate.c
koboshi_generate_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
koboshi_generate_LDADD = $(SERVE_LIBS)
libkb_serve_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
SERVE_LIBS = libkb_serve.a libkb_model.a $(CKPT_LIBS) $(DATA_LIBS) \
	$(COMM_LIBS) $(PLAN_LIBS) $(KERNELS_LIBS) $(BASE_LIBS)
