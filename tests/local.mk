# tests: one program a unit, tests/<folder>/test_<file>.c, TAP on stdout.
EXTRA_DIST += tests/tap.h tests/tap.sh tests/text.sh tests/prepare.sh tests/one \
	tests/story.jq tests/cluster/cluster.sh \
	tests/cluster/node.sh tests/cluster/slurm_conf.sh \
	tests/cluster/stage.sh tests/cluster/under_slurm.sh \
	tests/system/run.sh tests/system/t_bad_config.t \
	tests/system/t_batch_host.t \
	tests/system/t_batch_host_bare.t \
	tests/system/t_causes.t \
	tests/system/t_checkpoint_damaged.t \
	tests/system/t_cluster.t tests/system/t_comm.t tests/cli/t_ckpt.t \
	tests/system/t_gate.t \
	tests/system/t_node_cut.t \
	tests/system/t_node_loud.t \
	tests/system/t_node_silent.t \
	tests/system/t_notice.t tests/system/t_old_writer.t \
	tests/system/t_controller.t tests/system/t_crowded.t \
	tests/system/t_disk_full.t \
	tests/system/t_preempted.t \
	tests/system/t_rank_killed.t tests/system/t_layouts_killed.t \
	tests/system/t_requeue.t \
	tests/system/t_stall.t tests/system/t_start_again.t \
	tests/system/t_supervisor_killed.t \
	tests/system/t_suspend.t \
	tests/system/t_time_limit.t \
	tests/system/t_two_jobs.t tests/system/t_unbroken.t \
	tests/system/t_user.t tests/system/t_user_error.t tests/lint/lint.sh \
	tests/lint/t_layers.t tests/lint/t_rules.t tests/lint/t_text.t \
	tests/lint/t_man.t tests/lint/t_dist.t tests/lint/t_codes.t \
	tests/lint/t_messages.t \
	.ci/run
check_PROGRAMS += tests/system/stop_at_commit.so
tests_system_stop_at_commit_so_SOURCES = tests/system/stop_at_commit.c
tests_system_stop_at_commit_so_CFLAGS = $(AM_CFLAGS) -fPIC
tests_system_stop_at_commit_so_LDFLAGS = -shared
tests_system_stop_at_commit_so_LDADD = -ldl
if HAVE_PMIX
check_PROGRAMS += tests/cluster/pmix_hello
tests_cluster_pmix_hello_CFLAGS = $(AM_CFLAGS) $(PMIX_CFLAGS)
tests_cluster_pmix_hello_LDADD = $(PMIX_LIBS)
endif
check_PROGRAMS += tests/base/test_str
tests_base_test_str_LDADD = $(BASE_LIBS)
check_PROGRAMS += tests/base/test_proc
tests_base_test_proc_LDADD = $(BASE_LIBS)
EXTRA_DIST += tests/base/cases
check_PROGRAMS += tests/base/test_conf
tests_base_test_conf_CPPFLAGS = $(AM_CPPFLAGS) -DTESTS_DIR='"$(abs_top_srcdir)/tests"'
tests_base_test_conf_LDADD = $(BASE_LIBS)
include tests/data/local.mk
# tests/spank
check_PROGRAMS += tests/spank/test_hostlist tests/spank/test_cmdline \
	tests/spank/test_options tests/spank/test_wiring tests/spank/test_script \
	tests/spank/test_drain tests/spank/test_store \
	tests/spank/test_defaults tests/spank/test_suspect
tests_spank_test_suspect_SOURCES = tests/spank/test_suspect.c spank/suspect.c \
	spank/store.c
tests_spank_test_suspect_LDADD = $(BASE_LIBS)
tests_spank_test_defaults_SOURCES = tests/spank/test_defaults.c \
	spank/defaults.c
tests_spank_test_defaults_LDADD = $(BASE_LIBS)
EXTRA_DIST += tests/system/t_gate_run.t tests/system/t_health_run.t tests/system/t_gate.t tests/system/t_plugin.t
tests_spank_test_drain_SOURCES = tests/spank/test_drain.c spank/drain.c
tests_spank_test_drain_LDADD = $(BASE_LIBS)
tests_spank_test_store_SOURCES = tests/spank/test_store.c spank/store.c
tests_spank_test_store_LDADD = $(BASE_LIBS)
tests_spank_test_hostlist_SOURCES = tests/spank/test_hostlist.c spank/hostlist.c
tests_spank_test_hostlist_LDADD = $(BASE_LIBS)
tests_spank_test_cmdline_SOURCES = tests/spank/test_cmdline.c spank/cmdline.c
tests_spank_test_cmdline_LDADD = $(BASE_LIBS)
tests_spank_test_options_SOURCES = tests/spank/test_options.c spank/options.c
tests_spank_test_options_LDADD = $(BASE_LIBS)
tests_spank_test_wiring_SOURCES = tests/spank/test_wiring.c spank/wiring.c \
	spank/hostlist.c
tests_spank_test_wiring_LDADD = $(BASE_LIBS)
tests_spank_test_script_SOURCES = tests/spank/test_script.c spank/script.c
tests_spank_test_script_LDADD = $(BASE_LIBS)

# kernels: operations against their double twin.
ops_test_sources = tests/kernels/test_ops.c tests/kernels/cases.c \
	tests/kernels/lab.c tests/kernels/lab.h
check_PROGRAMS += tests/kernels/test_ops
tests_kernels_test_ops_SOURCES = $(ops_test_sources)
tests_kernels_test_ops_LDADD = $(KERNELS_LIBS)
check_PROGRAMS += tests/kernels/test_device
tests_kernels_test_device_LDADD = $(KERNELS_LIBS)
include tests/comm/local.mk
include tests/journal/local.mk
include tests/model/local.mk
include tests/plan/local.mk
include tests/cli/local.mk
include tests/ckpt/local.mk
if HAVE_CUDA
# by hand, on a machine with a GPU: see tests/gpu/ops.sh
EXTRA_PROGRAMS = tests/gpu/test_ops_cuda
tests_gpu_test_ops_cuda_SOURCES = $(ops_test_sources)
tests_gpu_test_ops_cuda_LDADD = $(KERNELS_CUDA_LIBS) $(KERNELS_LIBS)
endif
EXTRA_DIST += tests/gpu tests/parity
include tests/train/local.mk
include tests/health/local.mk
include tests/supervise/local.mk
if HAVE_SLURM
check_PROGRAMS += tests/spank/fake_host
tests_spank_fake_host_CPPFLAGS = $(AM_CPPFLAGS) $(SLURM_CFLAGS)
tests_spank_fake_host_CFLAGS = $(AM_CFLAGS) -Wno-missing-prototypes
tests_spank_fake_host_LDFLAGS = -rdynamic
endif
EXTRA_DIST += tests/spank/t_headers.t tests/spank/t_host.t tests/spank/t_page.t
include tests/fuzz/local.mk
include tests/system/local.mk
