# tests/system: faults of the matrix.
EXTRA_DIST += tests/matrix tests/matrix.txt tests/record.sh \
	tests/lint/t_matrix.t tests/bench/figures.sh tests/bench/soak.sh
EXTRA_DIST += tests/system/badfs.c
EXTRA_DIST += tests/system/t_all_bad.t
EXTRA_DIST += tests/system/t_badfs.t
EXTRA_DIST += tests/system/t_clock.t
EXTRA_DIST += tests/system/t_mishaps.t
EXTRA_DIST += tests/system/t_names.t
EXTRA_DIST += tests/system/t_no_start.t
EXTRA_DIST += tests/system/t_run_dir_gone.t
EXTRA_DIST += tests/system/t_same_nodes.t
EXTRA_DIST += tests/system/t_slow_disk.t
EXTRA_DIST += tests/system/t_slurm_restarts.t
EXTRA_DIST += tests/system/t_soak.t
EXTRA_DIST += tests/system/t_spare_bad.t
EXTRA_DIST += tests/system/t_two_faults.t
EXTRA_DIST += tests/system/t_user_script.t
EXTRA_DIST += tests/system/t_watcher_cut.t
check_PROGRAMS += tests/system/mishap.so
tests_system_mishap_so_SOURCES = tests/system/mishap.c
tests_system_mishap_so_CFLAGS = $(AM_CFLAGS) -fPIC -Wno-missing-prototypes
tests_system_mishap_so_LDFLAGS = -shared
tests_system_mishap_so_LDADD = -ldl
