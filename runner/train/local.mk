# runner/train
bin_PROGRAMS += koboshi-train
koboshi_train_SOURCES = runner/train/main_train.c runner/train/train.h \
	runner/train/options.c runner/train/site.c runner/train/site.h \
	runner/train/attempt.c runner/train/state.c runner/train/tensors.c \
	runner/train/tensors.h runner/train/resume.c \
	runner/train/feed.c runner/train/step.c runner/train/validate.c \
	runner/train/pipe.c runner/train/parts.c \
	runner/train/guard.c runner/train/guard.h \
	runner/train/report.c runner/train/report.h \
	runner/train/save.c runner/train/lines.c runner/train/stop.c \
	runner/train/loop.c runner/train/blas.c runner/train/trackers.c \
	runner/train/tuned.c runner/train/tuned.h runner/train/tuned_file.c
koboshi_train_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
koboshi_train_LDADD = libkb_model.a libkb_optim.a $(CKPT_LIBS) $(DATA_LIBS) \
	$(TRACKER_LIBS) $(COMM_NCCL_LIBS) $(COMM_LIBS) $(PLAN_LIBS) $(KERNELS_CUDA_LIBS) \
	$(KERNELS_LIBS) $(BASE_LIBS)
