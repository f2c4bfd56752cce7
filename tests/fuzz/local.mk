# Fuzz targets: as tests they run seeds and changed copies of them; as fuzzers:
# clang -fsanitize=fuzzer,address -DKB_LIBFUZZER (tests/fuzz/driver.h).
EXTRA_DIST += tests/fuzz/driver.h
check_PROGRAMS += tests/fuzz/test_fuzz_safetensors tests/fuzz/test_fuzz_manifest
tests_fuzz_test_fuzz_safetensors_LDADD = $(ckpt_test_libs)
tests_fuzz_test_fuzz_manifest_LDADD = $(ckpt_test_libs)
check_PROGRAMS += tests/fuzz/test_fuzz_health tests/fuzz/test_fuzz_spank
tests_fuzz_test_fuzz_health_SOURCES = tests/fuzz/test_fuzz_health.c \
	health/active.c health/catalog.c health/child.c health/finding.c \
	health/gpu_model.c health/gpu_record.c health/history.c health/klog.c \
	health/klog_judge.c health/site.c health/source.c health/xid.c
tests_fuzz_test_fuzz_health_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/health"'
tests_fuzz_test_fuzz_health_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) \
	$(KB_SANITIZE)
tests_fuzz_test_fuzz_health_LDFLAGS = $(KB_SANITIZE)
tests_fuzz_test_fuzz_health_LDADD = $(BASE_LIBS)
tests_fuzz_test_fuzz_spank_SOURCES = tests/fuzz/test_fuzz_spank.c \
	spank/cmdline.c spank/defaults.c spank/drain.c spank/hostlist.c
tests_fuzz_test_fuzz_spank_LDADD = $(BASE_LIBS)

# The parsers of runner/data, with the sanitizers in any build.
EXTRA_DIST += tests/fuzz/corpus
check_LIBRARIES = tests/fuzz/libkb_data_fuzz.a
tests_fuzz_libkb_data_fuzz_a_SOURCES = tests/fuzz/data.h \
	runner/data/bpe.c runner/data/bpe_chars.c runner/data/bpe_encode.c \
	runner/data/bpe_load.c runner/data/bpe_tiktoken.c \
	runner/data/bpe_walk.c runner/data/corpus.c runner/data/jsonl.c \
	runner/data/nfc.c runner/data/pretok.c runner/data/text.c \
	runner/data/tok_bpe.c runner/data/tok_byte.c runner/data/tokenizer.c \
	runner/data/tokens.c
fuzz_data_cflags = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS) \
	$(KB_SANITIZE)
fuzz_data_libs = tests/fuzz/libkb_data_fuzz.a $(DATA_LIBS)
tests_fuzz_libkb_data_fuzz_a_CFLAGS = $(fuzz_data_cflags)
check_PROGRAMS += tests/fuzz/test_fuzz_jsonl tests/fuzz/test_fuzz_tokenizer \
	tests/fuzz/test_fuzz_merges tests/fuzz/test_fuzz_idx
tests_fuzz_test_fuzz_jsonl_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/jsonl"'
tests_fuzz_test_fuzz_jsonl_CFLAGS = $(fuzz_data_cflags)
tests_fuzz_test_fuzz_jsonl_LDADD = $(fuzz_data_libs)
tests_fuzz_test_fuzz_tokenizer_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/tokenizer"'
tests_fuzz_test_fuzz_tokenizer_CFLAGS = $(fuzz_data_cflags)
tests_fuzz_test_fuzz_tokenizer_LDADD = $(fuzz_data_libs)
tests_fuzz_test_fuzz_merges_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/merges"'
tests_fuzz_test_fuzz_merges_CFLAGS = $(fuzz_data_cflags)
tests_fuzz_test_fuzz_merges_LDADD = $(fuzz_data_libs)
tests_fuzz_test_fuzz_idx_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/idx"'
tests_fuzz_test_fuzz_idx_CFLAGS = $(fuzz_data_cflags)
tests_fuzz_test_fuzz_idx_LDADD = $(fuzz_data_libs)

# run.yaml, with the sanitizers in any build.
check_PROGRAMS += tests/fuzz/test_fuzz_yaml
tests_fuzz_test_fuzz_yaml_SOURCES = tests/fuzz/test_fuzz_yaml.c \
	runner/base/conf.c runner/base/conf_dump.c runner/base/conf_value.c \
	runner/base/conf_yaml.c
tests_fuzz_test_fuzz_yaml_CPPFLAGS = $(AM_CPPFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/yaml"'
tests_fuzz_test_fuzz_yaml_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) \
	$(YAML_CFLAGS) $(KB_SANITIZE)
tests_fuzz_test_fuzz_yaml_LDADD = $(PLAN_LIBS)

# What attempts leave behind, what ranks say, what comes in on the port.
if HAVE_SLURM
check_PROGRAMS += tests/fuzz/test_fuzz_replay tests/fuzz/test_fuzz_ranks \
	tests/fuzz/test_fuzz_station
fuzz_supervise_cflags = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(CRYPTO_CFLAGS) \
	$(KB_SANITIZE)
tests_fuzz_test_fuzz_replay_SOURCES = tests/fuzz/test_fuzz_replay.c \
	runner/journal/chronicle.c runner/journal/chronicle_print.c \
	runner/journal/chronicle_read.c runner/journal/read.c \
	runner/supervise/attempt.c
tests_fuzz_test_fuzz_replay_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/replay"'
tests_fuzz_test_fuzz_replay_CFLAGS = $(fuzz_supervise_cflags)
tests_fuzz_test_fuzz_replay_LDADD = $(SUPERVISE_LIBS)
tests_fuzz_test_fuzz_ranks_SOURCES = tests/fuzz/test_fuzz_ranks.c \
	runner/supervise/node_ranks.c runner/supervise/node_stall.c
tests_fuzz_test_fuzz_ranks_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/ranks"'
tests_fuzz_test_fuzz_ranks_CFLAGS = $(fuzz_supervise_cflags)
tests_fuzz_test_fuzz_ranks_LDADD = $(SUPERVISE_LIBS)
tests_fuzz_test_fuzz_station_SOURCES = tests/fuzz/test_fuzz_station.c \
	runner/supervise/station.c runner/supervise/wire.c
tests_fuzz_test_fuzz_station_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CFLAGS) \
	-DCORPUS='"$(abs_top_srcdir)/tests/fuzz/corpus/station"'
tests_fuzz_test_fuzz_station_CFLAGS = $(fuzz_supervise_cflags)
tests_fuzz_test_fuzz_station_LDADD = $(SUPERVISE_LIBS)
endif
