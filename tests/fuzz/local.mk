# Fuzz targets: as tests they run seeds and changed copies of them; as fuzzers:
# clang -fsanitize=fuzzer,address -DKB_LIBFUZZER (tests/fuzz/driver.h).
EXTRA_DIST += tests/fuzz/driver.h
check_PROGRAMS += tests/fuzz/test_fuzz_safetensors tests/fuzz/test_fuzz_manifest
tests_fuzz_test_fuzz_safetensors_LDADD = $(ckpt_test_libs)
tests_fuzz_test_fuzz_manifest_LDADD = $(ckpt_test_libs)
check_PROGRAMS += tests/fuzz/test_fuzz_health tests/fuzz/test_fuzz_spank
tests_fuzz_test_fuzz_health_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_fuzz_test_fuzz_health_LDADD = $(HEALTH_LIBS)
tests_fuzz_test_fuzz_spank_SOURCES = tests/fuzz/test_fuzz_spank.c \
	spank/cmdline.c spank/defaults.c spank/drain.c spank/hostlist.c
tests_fuzz_test_fuzz_spank_LDADD = $(BASE_LIBS)
