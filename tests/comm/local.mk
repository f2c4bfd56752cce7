comm_test_libs = $(COMM_LIBS) $(KERNELS_LIBS) $(BASE_LIBS)
check_PROGRAMS += tests/comm/test_comm tests/comm/test_control \
	tests/comm/test_mpi
tests_comm_test_comm_LDADD = $(comm_test_libs)
tests_comm_test_control_LDADD = $(comm_test_libs)
tests_comm_test_mpi_LDADD = $(comm_test_libs)
