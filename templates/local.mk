# templates
