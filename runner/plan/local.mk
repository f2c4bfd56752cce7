# plan: configuration and facts to decisions; pure.
noinst_LIBRARIES += libkb_plan.a
libkb_plan_a_SOURCES = \
	runner/plan/plan.h runner/plan/shape.h runner/plan/batch.h \
	runner/plan/plan_private.h \
	runner/plan/rows.c runner/plan/plan_conf.c runner/plan/preset.c \
	runner/plan/make.c runner/plan/layout.c runner/plan/model.c \
	runner/plan/data.c runner/plan/checkpoint.c runner/plan/recovery.c \
	runner/plan/sizes.c runner/plan/sizes.h runner/plan/scratch.c \
	runner/plan/memory.c runner/plan/fit.c runner/plan/gpu.c \
	runner/plan/gpu.h \
	runner/plan/share.c runner/plan/share.h runner/plan/choose.c \
	runner/plan/schedule.c runner/plan/schedule.h \
	runner/plan/ramp.c runner/plan/hash.c runner/plan/print.c
PLAN_LIBS = libkb_plan.a $(BASE_LIBS)
