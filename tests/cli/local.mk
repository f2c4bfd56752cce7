# tests of runner/cli
check_PROGRAMS += tests/cli/test_site
tests_cli_test_site_SOURCES = tests/cli/test_site.c runner/cli/site.c \
	runner/cli/site_slurm.c
tests_cli_test_site_LDADD = $(PLAN_LIBS)
EXTRA_DIST += tests/cli/t_plan.t
