check_PROGRAMS += tests/journal/test_journal tests/journal/test_tboard
tests_journal_test_journal_LDADD = $(JOURNAL_LIBS)
tests_journal_test_tboard_LDADD = $(JOURNAL_LIBS)
