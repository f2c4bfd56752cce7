# tests/health
check_PROGRAMS += tests/health/test_look tests/health/test_catalog \
	tests/health/test_xid tests/health/test_active tests/health/test_pairs \
	tests/health/test_gpu_model tests/health/test_history
tests_health_test_active_LDADD = $(HEALTH_LIBS)
check_PROGRAMS += tests/health/test_lead
tests_health_test_lead_SOURCES = tests/health/test_lead.c health/active/lead.c
tests_health_test_lead_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_health_test_lead_LDADD = $(BASE_LIBS)
tests_health_test_pairs_LDADD = $(HEALTH_LIBS)
tests_health_test_gpu_model_LDADD = $(HEALTH_LIBS)
EXTRA_DIST += tests/health/t_active.t tests/health/t_pairs.t
tests_health_test_look_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_health_test_look_LDADD = $(HEALTH_LIBS)
tests_health_test_catalog_CPPFLAGS = $(AM_CPPFLAGS) \
	-DPAGE='"$(abs_top_srcdir)/man/koboshi-health.8"'
tests_health_test_catalog_LDADD = $(HEALTH_LIBS)
tests_health_test_xid_LDADD = $(HEALTH_LIBS)
tests_health_test_history_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_health_test_history_LDADD = $(HEALTH_LIBS)
EXTRA_DIST += tests/health/t_hosts.t tests/health/t_page.t tests/health/hosts
# The driver's stand-in: shared objects, as the real one.
check_PROGRAMS += tests/health/libfake_nvml.so tests/health/libfake_nvml_old.so
fake_nvml_sources = tests/health/fake_nvml.c health/gpu_record.c \
	$(base_free_sources)
tests_health_libfake_nvml_so_SOURCES = $(fake_nvml_sources)
tests_health_libfake_nvml_so_CFLAGS = $(AM_CFLAGS) -fPIC -Wno-missing-prototypes
tests_health_libfake_nvml_so_LDFLAGS = -shared -fPIC -Wl,-Bsymbolic
tests_health_libfake_nvml_so_LDADD =
tests_health_libfake_nvml_old_so_SOURCES = $(fake_nvml_sources)
tests_health_libfake_nvml_old_so_CPPFLAGS = $(AM_CPPFLAGS) -DFAKE_OLD
tests_health_libfake_nvml_old_so_CFLAGS = $(AM_CFLAGS) -fPIC \
	-Wno-missing-prototypes
tests_health_libfake_nvml_old_so_LDFLAGS = -shared -fPIC -Wl,-Bsymbolic
tests_health_libfake_nvml_old_so_LDADD =
EXTRA_DIST += tests/health/t_nvml.t tests/health/t_compare.t \
	tests/health/t_live.t tests/health/t_watch.t \
	tests/health/t_history.t
# Sources of the library's own, with the sanitizers built in.
check_PROGRAMS += tests/health/test_nvml
tests_health_test_nvml_SOURCES = tests/health/test_nvml.c health/nvml.c \
	health/gpu_record.c $(base_free_sources)
tests_health_test_nvml_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFAKE_LIBRARY='"$(abs_top_builddir)/tests/health/libfake_nvml.so"' \
	-DFAKE_RECORD='"$(abs_top_srcdir)/tests/health/hosts/gpu-good/gpus"'
tests_health_test_nvml_CFLAGS = $(AM_CFLAGS) $(KB_SANITIZE)
tests_health_test_nvml_LDFLAGS = $(KB_SANITIZE)
tests_health_test_nvml_LDADD = -ldl
