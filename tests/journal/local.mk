check_PROGRAMS += tests/journal/test_chronicle tests/journal/test_journal \
	tests/journal/test_mlflow tests/journal/test_tboard
EXTRA_DIST += tests/journal/cases
tests_journal_test_chronicle_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTESTS_DIR='"$(abs_top_srcdir)/tests"'
tests_journal_test_chronicle_LDADD = $(JOURNAL_LIBS)
tests_journal_test_journal_LDADD = $(JOURNAL_LIBS)
tests_journal_test_mlflow_LDADD = $(TRACKER_LIBS)
tests_journal_test_tboard_LDADD = $(JOURNAL_LIBS)
check_PROGRAMS += tests/journal/test_notice
tests_journal_test_notice_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_journal_test_notice_LDADD = $(NOTICE_LIBS)
