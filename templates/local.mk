# templates: example runs, installed; tests/plan/t_templates.t plans each.
dist_pkgdata_DATA += templates/cpu-gpt2-nano.yaml \
	templates/cpu-llama-nano.yaml templates/gpt2-124m.yaml \
	templates/gpt2-1558m.yaml templates/gpt3-7b.yaml \
	templates/llama-1b.yaml templates/llama-3b.yaml templates/llama-8b.yaml
# The batch script of a user who names none.
pkgdata_DATA = templates/koboshi.sbatch
templates/koboshi.sbatch: templates/koboshi.sbatch.in Makefile
	$(AM_V_GEN)$(MKDIR_P) templates && \
	sed 's|@bindir[@]|$(bindir)|g' $(srcdir)/templates/koboshi.sbatch.in >$@
CLEANFILES += templates/koboshi.sbatch
EXTRA_DIST += templates/koboshi.sbatch.in
