# man: pages; tests/lint/t_man.t and tests/plan/test_man hold them against the
# programs and the rows.
dist_man_MANS += man/koboshi.1 man/koboshi.7 man/koboshi.yaml.5
dist_man_MANS += man/koboshi-train.1 man/koboshi-supervise.1
dist_man_MANS += man/spank_koboshi.8 man/koboshi-health.8
dist_man_MANS += man/koboshi-checkpoint.5
