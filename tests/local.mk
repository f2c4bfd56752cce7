# tests: one program a unit, tests/<folder>/test_<file>.c, TAP on stdout.
EXTRA_DIST += tests/tap.h
check_PROGRAMS += tests/base/test_str
tests_base_test_str_LDADD = $(BASE_LIBS)
check_PROGRAMS += tests/base/test_proc
tests_base_test_proc_LDADD = $(BASE_LIBS)
check_PROGRAMS += tests/base/test_conf
tests_base_test_conf_CPPFLAGS = $(AM_CPPFLAGS) -DTESTS_DIR='"$(abs_top_srcdir)/tests"'
tests_base_test_conf_LDADD = $(BASE_LIBS)
