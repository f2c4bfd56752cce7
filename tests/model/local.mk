# tests/model, tests/optim
EXTRA_DIST += tests/model/tiny.h
check_PROGRAMS += tests/model/test_grad tests/model/test_init \
	tests/model/test_decode tests/optim/test_optim
tests_model_test_grad_LDADD = $(MODEL_LIBS)
tests_model_test_init_LDADD = $(MODEL_LIBS)
tests_model_test_decode_LDADD = $(MODEL_LIBS)
tests_optim_test_optim_LDADD = libkb_optim.a $(MODEL_LIBS)
check_PROGRAMS += tests/model/test_hf_config tests/model/test_hf_read
tests_model_test_hf_config_LDADD = $(MODEL_LIBS)
tests_model_test_hf_read_LDADD = $(MODEL_LIBS)
