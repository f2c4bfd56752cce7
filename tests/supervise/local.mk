# tests/supervise
if HAVE_SLURM
check_PROGRAMS += tests/supervise/rank_standin
tests_supervise_rank_standin_LDADD = $(BASE_LIBS)
endif
EXTRA_DIST += $(wildcard $(srcdir)/tests/supervise/*.t)
