# journal: events and metrics for people and dashboards.
noinst_LIBRARIES += libkb_journal.a
libkb_journal_a_SOURCES = \
	runner/journal/crc32c.c runner/journal/crc32c.h \
	runner/journal/journal.c runner/journal/journal.h \
	runner/journal/metrics.c runner/journal/fields.h \
	runner/journal/mlflow.c runner/journal/mlflow.h \
	runner/journal/mlflow_rest.c runner/journal/mlflow_rest.h \
	runner/journal/read.c \
	runner/journal/chronicle.c runner/journal/chronicle.h \
	runner/journal/chronicle_print.c \
	runner/journal/chronicle_read.c runner/journal/chronicle_private.h \
	runner/journal/tb_record.c runner/journal/tb_record.h \
	runner/journal/tboard.c
libkb_journal_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(CURL_CFLAGS)
JOURNAL_LIBS = libkb_journal.a $(BASE_LIBS)
# For programs that use mlflow.h.
TRACKER_LIBS = $(JOURNAL_LIBS) $(CURL_LIBS) -lpthread
# notice.h needs libcurl too.
libkb_journal_a_SOURCES += runner/journal/notice.c runner/journal/notice.h
NOTICE_LIBS = $(JOURNAL_LIBS) $(CURL_LIBS)
