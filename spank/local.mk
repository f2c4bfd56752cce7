# spank: the plugin. It links nothing but libc: the library-free part of
# runner/base is compiled again, for a shared object.
if HAVE_SLURM
plugin_PROGRAMS += spank_koboshi.so
spank_koboshi_so_SOURCES = $(base_free_sources) \
	spank/args.c spank/args.h \
	spank/cmdline.c spank/cmdline.h \
	spank/context.h \
	spank/defaults.c spank/defaults.h \
	spank/drain.c spank/drain.h \
	spank/gate.c health/finding.h \
	spank/suspect.c spank/suspect.h \
	spank/hostlist.c spank/hostlist.h \
	spank/options.c spank/options.h \
	spank/plugin.c \
	spank/request.c spank/request.h \
	spank/say.c spank/say.h \
	spank/script.c spank/script.h \
	spank/srun.c \
	spank/step.c \
	spank/store.c spank/store.h \
	spank/submit.c \
	spank/wiring.c spank/wiring.h
spank_koboshi_so_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CFLAGS)
spank_koboshi_so_CFLAGS = $(AM_CFLAGS) -fPIC -fstack-protector-strong
spank_koboshi_so_LDFLAGS = -shared -fPIC -Wl,-z,now -Wl,-z,relro \
	-Wl,--version-script=$(srcdir)/spank/plugin.map
spank_koboshi_so_LDADD =
EXTRA_spank_koboshi_so_DEPENDENCIES = spank/plugin.map
endif
EXTRA_DIST += spank/plugin.map
