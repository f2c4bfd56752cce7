data_tests = tests/data/test_bpe tests/data/test_build tests/data/test_data \
	tests/data/test_fuzz \
	tests/data/test_jsonl tests/data/test_nfc tests/data/test_order \
	tests/data/test_pretok \
	tests/data/test_tok_bpe tests/data/test_tokenizer \
	tests/data/test_tokens
EXTRA_DIST += tests/data/compare_learning.py \
	tests/data/compare_sentencepiece.py \
	tests/data/compare_tokenizers.py tests/data/scratch.h \
	tests/cli/t_data.t tests/cli/t_data_cases.t \
	tests/cli/t_import.t tests/data/cases
check_PROGRAMS += $(data_tests) tests/data/bench_encode \
	tests/data/bench_loader
tests_data_bench_encode_LDADD = $(DATA_LIBS)
tests_data_bench_loader_LDADD = $(DATA_LIBS)
tests_data_test_bpe_LDADD = $(DATA_LIBS)
tests_data_test_build_LDADD = $(DATA_LIBS)
tests_data_test_data_LDADD = $(DATA_LIBS)
tests_data_test_fuzz_LDADD = $(DATA_LIBS)
tests_data_test_jsonl_LDADD = $(DATA_LIBS)
tests_data_test_nfc_LDADD = $(DATA_LIBS)
tests_data_test_order_LDADD = $(DATA_LIBS)
tests_data_test_pretok_LDADD = $(DATA_LIBS)
tests_data_test_tok_bpe_CPPFLAGS = $(AM_CPPFLAGS) \
	-DTESTS_DIR='"$(abs_top_srcdir)/tests"'
tests_data_test_tok_bpe_LDADD = $(DATA_LIBS)
tests_data_test_tokenizer_LDADD = $(DATA_LIBS)
tests_data_test_tokens_LDADD = $(DATA_LIBS)
