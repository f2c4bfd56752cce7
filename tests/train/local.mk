# tests/train, tests/serve
EXTRA_DIST += tests/train/t_ramp.t tests/train/t_shard.t \
	tests/train/t_train.t
check_PROGRAMS += tests/train/test_guard tests/train/test_report \
	tests/train/test_tuned tests/serve/test_sample
tests_train_test_guard_SOURCES = tests/train/test_guard.c runner/train/guard.c
tests_train_test_guard_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_train_test_guard_LDADD = $(BASE_LIBS)
tests_train_test_tuned_SOURCES = tests/train/test_tuned.c \
	runner/train/tuned_file.c
tests_train_test_tuned_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_train_test_tuned_LDADD = $(BASE_LIBS)
tests_train_test_report_SOURCES = tests/train/test_report.c \
	runner/train/report.c
tests_train_test_report_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
tests_train_test_report_LDADD = $(BASE_LIBS)
tests_serve_test_sample_LDADD = libkb_serve.a $(BASE_LIBS)
# for tests/parity/hf_logits.py, by hand
check_PROGRAMS += tests/parity/hf_logits
tests_parity_hf_logits_LDADD = $(SERVE_LIBS)
# for tests/parity/table.sh
check_PROGRAMS += tests/parity/apart
tests_parity_apart_LDADD = $(CKPT_LIBS) $(COMM_LIBS) $(KERNELS_LIBS) $(BASE_LIBS)
