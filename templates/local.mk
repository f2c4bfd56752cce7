# templates: example runs, installed; tests/plan/t_templates.t plans each.
dist_pkgdata_DATA += templates/cpu-gpt2-nano.yaml \
	templates/cpu-llama-nano.yaml templates/gpt2-124m.yaml \
	templates/gpt2-1558m.yaml templates/gpt3-7b.yaml \
	templates/llama-1b.yaml templates/llama-8b.yaml
