ckpt_test_libs = $(CKPT_LIBS) $(COMM_LIBS) $(KERNELS_LIBS) $(BASE_LIBS)
EXTRA_DIST += tests/ckpt/lab.h
check_PROGRAMS += tests/ckpt/test_layouts tests/ckpt/test_ckpt
tests_ckpt_test_layouts_LDADD = $(ckpt_test_libs)
tests_ckpt_test_ckpt_LDADD = $(ckpt_test_libs)
check_PROGRAMS += tests/ckpt/test_bad tests/ckpt/test_catalog
tests_ckpt_test_bad_LDADD = $(ckpt_test_libs)
tests_ckpt_test_catalog_LDADD = $(ckpt_test_libs)
check_PROGRAMS += tests/ckpt/test_import
tests_ckpt_test_import_LDADD = $(ckpt_test_libs)
check_PROGRAMS += tests/ckpt/test_storage
tests_ckpt_test_storage_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes
tests_ckpt_test_storage_LDADD = $(ckpt_test_libs) -ldl
check_PROGRAMS += tests/ckpt/test_any
tests_ckpt_test_any_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_ckpt_test_any_LDADD = libkb_optim.a $(ckpt_test_libs_model)
ckpt_test_libs_model = libkb_model.a $(CKPT_LIBS) $(COMM_LIBS) $(KERNELS_LIBS) \
	libkb_plan.a $(BASE_LIBS)
