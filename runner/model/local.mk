# runner/model
noinst_LIBRARIES += libkb_model.a
libkb_model_a_SOURCES = \
	runner/model/model.c runner/model/model.h \
	runner/model/params.c runner/model/params.h \
	runner/model/hf_names.c runner/model/hf_config.c \
	runner/model/hf_read.c runner/model/hf_tensors.c runner/model/init.c \
	runner/model/acts.c runner/model/layers.h \
	runner/model/tensor.c runner/model/ffn.c runner/model/block.c runner/model/decode.c
libkb_model_a_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
MODEL_LIBS = libkb_model.a $(COMM_LIBS) $(KERNELS_LIBS) libkb_plan.a $(BASE_LIBS)
