# data: text to tokens, token files, order, batches.
noinst_LIBRARIES += libkb_data.a
libkb_data_a_SOURCES = \
	runner/data/ahead.c runner/data/ahead.h \
	runner/data/batch_work.c runner/data/batch_work.h \
	runner/data/blend.c runner/data/blend.h \
	runner/data/bpe.c runner/data/bpe.h \
	runner/data/bpe_chars.c runner/data/bpe_chars.h \
	runner/data/bpe_encode.c runner/data/bpe_private.h \
	runner/data/bpe_tiktoken.c \
	runner/data/bpe_walk.c runner/data/bpe_walk.h \
	runner/data/bpe_load.c runner/data/bpe_load.h \
	runner/data/build.c runner/data/build.h \
	runner/data/build_state.c runner/data/build_state.h \
	runner/data/corpus.c runner/data/corpus.h \
	runner/data/cursor.c runner/data/cursor.h \
	runner/data/cursor_change.c \
	runner/data/data.c runner/data/data.h \
	runner/data/input.c runner/data/input.h \
	runner/data/jsonl.c runner/data/jsonl.h \
	runner/data/learn.c runner/data/learn.h runner/data/learn_bpe.c \
	runner/data/nfc.c runner/data/nfc.h runner/data/nfc_table.h \
	runner/data/order.c runner/data/order.h \
	runner/data/order_cache.c runner/data/order_cache.h \
	runner/data/pretok.c runner/data/pretok.h \
	runner/data/repeats.c \
	runner/data/source.c runner/data/source.h \
	runner/data/text.c runner/data/text.h \
	runner/data/tokenizer.c runner/data/tokenizer.h \
	runner/data/sentencepiece.h \
	runner/data/tok_bpe.c runner/data/tok_byte.c \
	runner/data/tok_sentencepiece.c \
	runner/data/tokens.c runner/data/tokens.h \
	runner/data/tokens_file.h runner/data/tokens_write.c \
	runner/data/twister.c runner/data/twister.h \
	runner/data/unicode_case_table.h runner/data/unicode_table.h \
	runner/data/windows.c runner/data/windows.h
if HAVE_SENTENCEPIECE
libkb_data_a_SOURCES += runner/data/sentencepiece.cc
endif
libkb_data_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(XXHASH_CFLAGS)
DATA_LIBS = libkb_data.a libkb_plan.a $(BASE_LIBS) $(SENTENCEPIECE_LIBS) \
	-lpthread
EXTRA_DIST += runner/data/nfc_table.awk runner/data/table.awk \
	runner/data/unicode_table.awk
