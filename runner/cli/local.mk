# cli: the verbs of koboshi.
bin_PROGRAMS += koboshi
koboshi_SOURCES = runner/cli/main_koboshi.c runner/cli/verbs.h \
	runner/cli/verb_plan.c \
	runner/cli/verb_health.c \
	runner/cli/site.c runner/cli/site.h runner/cli/site_slurm.c \
	runner/cli/verb_data.c runner/cli/verb_data.h \
	runner/cli/verb_data_files.c runner/cli/verb_data_look.c \
	runner/cli/ckpt_import.c runner/cli/ckpt_import.h \
	runner/cli/verb_ckpt.c runner/cli/verb_generate.c \
	runner/cli/verb_report.c runner/cli/verb_status.c
koboshi_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
koboshi_LDADD = libkb_health.a libkb_model.a $(CKPT_LIBS) $(KERNELS_LIBS) \
	$(DATA_LIBS) $(JOURNAL_LIBS) $(PLAN_LIBS)
