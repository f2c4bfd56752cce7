# base: the floor. The library-free part is what the plugin compiles again.
base_free_sources = \
	runner/base/err.c runner/base/err.h \
	runner/base/str.c runner/base/str.h \
	runner/base/clock.c runner/base/clock.h \
	runner/base/file.c runner/base/file.h \
	runner/base/contract.c runner/base/contract.h \
	runner/base/proc.c runner/base/proc.h
noinst_LIBRARIES += libkb_base.a
libkb_base_a_SOURCES = $(base_free_sources) \
	runner/base/log.c runner/base/log.h \
	runner/base/conf.c runner/base/conf.h runner/base/conf_private.h \
	runner/base/conf_yaml.c runner/base/conf_value.c \
	runner/base/conf_dump.c \
	runner/base/json.c runner/base/json.h
libkb_base_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(YAML_CFLAGS)
BASE_LIBS = libkb_base.a $(JANSSON_LIBS) $(YAML_LIBS) -lm
