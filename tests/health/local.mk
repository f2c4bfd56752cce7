# tests/health
check_PROGRAMS += tests/health/test_look tests/health/test_catalog \
	tests/health/test_xid
tests_health_test_look_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_health_test_look_LDADD = $(HEALTH_LIBS)
tests_health_test_catalog_LDADD = $(HEALTH_LIBS)
tests_health_test_xid_LDADD = $(HEALTH_LIBS)
EXTRA_DIST += tests/health/t_hosts.t tests/health/t_page.t tests/health/hosts
