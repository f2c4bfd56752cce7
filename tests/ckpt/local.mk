ckpt_test_libs = $(CKPT_LIBS) $(COMM_LIBS) $(KERNELS_LIBS) $(BASE_LIBS)
EXTRA_DIST += tests/ckpt/lab.h
check_PROGRAMS += tests/ckpt/test_layouts tests/ckpt/test_ckpt
tests_ckpt_test_layouts_LDADD = $(ckpt_test_libs)
tests_ckpt_test_ckpt_LDADD = $(ckpt_test_libs)
check_PROGRAMS += tests/ckpt/test_bad tests/ckpt/test_catalog
tests_ckpt_test_bad_LDADD = $(ckpt_test_libs)
tests_ckpt_test_catalog_LDADD = $(ckpt_test_libs)
