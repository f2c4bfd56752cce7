# tests of runner/plan
check_PROGRAMS += tests/plan/test_make
tests_plan_test_make_CPPFLAGS = $(AM_CPPFLAGS) -DTESTS_DIR='"$(abs_top_srcdir)/tests"'
tests_plan_test_make_LDADD = $(PLAN_LIBS)
check_PROGRAMS += tests/lint/plan_keys
tests_lint_plan_keys_LDADD = $(PLAN_LIBS)
check_PROGRAMS += tests/plan/test_memory
tests_plan_test_memory_LDADD = libkb_optim.a $(MODEL_LIBS)
tests_plan_test_memory_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
check_PROGRAMS += tests/plan/test_man
tests_plan_test_man_CPPFLAGS = $(AM_CPPFLAGS) -DMAN_DIR='"$(abs_top_srcdir)/man"'
tests_plan_test_man_LDADD = $(PLAN_LIBS)
check_PROGRAMS += tests/plan/test_fuzz
tests_plan_test_fuzz_LDADD = $(PLAN_LIBS)
EXTRA_DIST += tests/plan/cases tests/plan/t_templates.t
check_PROGRAMS += tests/plan/test_schedule
tests_plan_test_schedule_LDADD = $(PLAN_LIBS)
check_PROGRAMS += tests/plan/test_ramp
tests_plan_test_ramp_LDADD = $(PLAN_LIBS)
