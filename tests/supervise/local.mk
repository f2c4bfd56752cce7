# tests/supervise
if HAVE_SLURM
supervise_tests = tests/supervise/test_classify tests/supervise/test_decide \
	tests/supervise/test_wire tests/supervise/test_node \
	tests/supervise/test_attempt
check_PROGRAMS += $(supervise_tests) tests/supervise/rank_standin tests/supervise/bench_station
tests_supervise_rank_standin_LDADD = $(BASE_LIBS)
tests_supervise_bench_station_LDADD = $(SUPERVISE_LIBS)
tests_supervise_test_classify_LDADD = $(SUPERVISE_LIBS)
tests_supervise_test_decide_LDADD = $(SUPERVISE_LIBS)
tests_supervise_test_wire_LDADD = $(SUPERVISE_LIBS)
tests_supervise_test_node_LDADD = $(SUPERVISE_LIBS)
tests_supervise_test_attempt_LDADD = $(SUPERVISE_LIBS)
endif
if HAVE_SLURM
check_PROGRAMS += tests/fuzz/test_fuzz_wire
tests_fuzz_test_fuzz_wire_LDADD = $(SUPERVISE_LIBS)
endif
