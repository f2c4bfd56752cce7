/* conf_yaml - YAML mappings to rows. The whole document is composed first
 * (libyaml resolves anchors), then walked with the dotted name so far. What
 * an anchor repeats is counted, so that a small file cannot unfold into a
 * large one, and nesting has a limit, so that an anchor inside itself ends.
 */
#include "runner/base/conf_private.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "runner/base/file.h"

#define FILE_MAX_BYTES (1u << 20)
#define NODES_MAX 20000
#define DEPTH_MAX 8
#define KEY_MAX 256

struct reading {
    struct conf *conf;
    yaml_document_t *doc;
    const char *name; /* of the file */
    int nodes_n;
    struct err *err;  /* the first mistake */
};

static int line_of(const yaml_node_t *node)
{
    return (int)node->start_mark.line + 1;
}

static int mistake(struct reading *r, const yaml_node_t *node,
                   const char *what, const char *subject, const char *hint)
{
    return conf_mistake(r->conf, r->err, "conf: %s:%d: %s '%.200s'%s", r->name,
                        line_of(node), what, subject, hint);
}

static const char *scalar(const yaml_node_t *node)
{
    return (const char *)node->data.scalar.value;
}

static bool is_null(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE &&
           node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           (!*scalar(node) || !strcmp(scalar(node), "~") ||
            !strcmp(scalar(node), "null"));
}

/* A scalar's text may be a value: no NUL inside, no tag but plain ones. */
static int check_scalar(struct reading *r, const yaml_node_t *node,
                        const char *key)
{
    if (node->type != YAML_SCALAR_NODE)
        return mistake(r, node, "items of a list are single values in", key,
                       "");
    if (node->tag && strcmp((const char *)node->tag, YAML_STR_TAG))
        return mistake(r, node, "tags are not allowed at", key, "");
    if (strlen(scalar(node)) != node->data.scalar.length)
        return mistake(r, node, "a NUL character in", key, "");
    return 0;
}

/* The node's text, items of a list with '\n' between them; NULL on error. */
static char *value_text(struct reading *r, const yaml_node_t *node,
                        const struct conf_row *row)
{
    struct sbuf text = SBUF_INIT;
    if (node->type == YAML_SCALAR_NODE) {
        if (check_scalar(r, node, row->key))
            goto fail;
        if (!is_null(node))
            sbuf_puts(&text, scalar(node));
        return sbuf_take(&text);
    }
    if (row->type != CONF_LIST) {
        mistake(r, node, "a list is given for one value:", row->key, "");
        goto fail;
    }
    const yaml_node_item_t *item = node->data.sequence.items.start;
    for (; item < node->data.sequence.items.top; item++) {
        const yaml_node_t *one = yaml_document_get_node(r->doc, *item);
        if (check_scalar(r, one, row->key))
            goto fail;
        if (strchr(scalar(one), '\n')) {
            mistake(r, one, "a line break in an item of", row->key, "");
            goto fail;
        }
        sbuf_printf(&text, "%s%s", text.len ? "\n" : "", scalar(one));
    }
    return sbuf_take(&text);
fail:
    sbuf_release(&text);
    return NULL;
}

static int set_row(struct reading *r, const yaml_node_t *name,
                   const yaml_node_t *node, int i)
{
    const struct conf_row *row = &r->conf->rows[i];
    struct conf_entry *entry = &r->conf->entries[i];
    char origin[PATH_MAX + 32], first[PATH_MAX + 64];
    if (node->type == YAML_MAPPING_NODE)
        return mistake(r, node, "a section is given for one value:", row->key,
                       "");
    if (entry->read_no == r->conf->read_no) {
        snprintf(first, sizeof first, "; it is also at %s", entry->origin);
        return mistake(r, name, "duplicate key", row->key, first);
    }
    char *text = value_text(r, node, row);
    if (!text)
        return -1;
    snprintf(origin, sizeof origin, "%s:%d", r->name, line_of(name));
    int rc = conf_put(r->conf, row->key, text, origin, r->err);
    entry->read_no = r->conf->read_no;
    free(text);
    return rc;
}

/* Does any key begin with "name."? */
static bool is_section(const struct conf *conf, const char *name)
{
    size_t n = strlen(name);
    for (int i = 0; i < conf->rows_n; i++)
        if (!strncmp(conf->rows[i].key, name, n) && conf->rows[i].key[n] == '.')
            return true;
    return false;
}

/* SECTION.layout, or -1. */
static int layout_key(const struct conf *conf, const char *section)
{
    char key[KEY_MAX];
    if (snprintf(key, sizeof key, "%s.layout", section) >= (int)sizeof key)
        return -1;
    return conf_find(conf, key);
}

/* The section nearest to an unknown one. */
static const char *section_hint(const struct conf *conf, const char *name,
                                char *buf, size_t bytes)
{
    int best = 1 << 30;
    buf[0] = 0;
    for (int i = 0; i < conf->rows_n; i++) {
        char section[KEY_MAX];
        snprintf(section, sizeof section, "%.*s",
                 (int)strcspn(conf->rows[i].key, "."), conf->rows[i].key);
        int distance = str_distance(section, name);
        if (distance < best) {
            best = distance;
            snprintf(buf, bytes, "; did you mean '%s'", section);
        }
    }
    return buf;
}

static int walk(struct reading *r, const yaml_node_t *map, const char *prefix,
                int depth);

static int pair(struct reading *r, const char *prefix, const yaml_node_t *name,
                const yaml_node_t *node, int depth)
{
    char key[KEY_MAX], hint[400];
    if (name->type != YAML_SCALAR_NODE)
        return mistake(r, name, "a key must be a word in",
                       *prefix ? prefix : "the file", "");
    if (!strcmp(scalar(name), "<<"))
        return mistake(r, name, "merge keys are not supported:", "<<", "");
    if (snprintf(key, sizeof key, "%s%s%s", prefix, *prefix ? "." : "",
                 scalar(name)) >= (int)sizeof key)
        return mistake(r, name, "unknown key", scalar(name), "");
    int i = conf_find(r->conf, key);
    if (i >= 0)
        return set_row(r, name, node, i);
    if (is_section(r->conf, key)) {
        if (is_null(node))
            return 0; /* a section with nothing in it */
        if (node->type == YAML_MAPPING_NODE)
            return walk(r, node, key, depth + 1);
        /* a section that can be had in one word has a key for it */
        i = layout_key(r->conf, key);
        if (i >= 0 && node->type == YAML_SCALAR_NODE)
            return set_row(r, name, node, i);
        return mistake(r, node, "one value is given for a section:", key, "");
    }
    if (node->type == YAML_MAPPING_NODE)
        return mistake(r, name, "unknown section", key,
                       section_hint(r->conf, key, hint, sizeof hint));
    return mistake(r, name, "unknown key", key,
                   conf_hint(r->conf, key, hint, sizeof hint));
}

static int walk(struct reading *r, const yaml_node_t *map, const char *prefix,
                int depth)
{
    int rc = 0;
    if (depth > DEPTH_MAX)
        return mistake(r, map, "nested too deep:", prefix, "");
    const yaml_node_pair_t *p = map->data.mapping.pairs.start;
    for (; p < map->data.mapping.pairs.top; p++) {
        if (++r->nodes_n > NODES_MAX)
            return mistake(r, map, "too many keys in", r->name, "");
        if (pair(r, prefix, yaml_document_get_node(r->doc, p->key),
                 yaml_document_get_node(r->doc, p->value), depth))
            rc = -1;
    }
    return rc;
}

static int syntax_error(struct conf *conf, const yaml_parser_t *parser,
                        const char *name, struct err *err)
{
    size_t line = parser->problem_mark.line;
    if (parser->error == YAML_MEMORY_ERROR)
        return err_set(err, "conf: out of memory");
    return conf_mistake(conf, err, "conf: %s:%zu: not YAML: %s%s%s", name,
                        line + 1,
                        parser->problem ? parser->problem : "cannot be read",
                        parser->context ? " " : "",
                        parser->context ? parser->context : "");
}

/* The first document's mapping, if there is one. */
static int read_document(struct conf *conf, yaml_parser_t *parser,
                         const char *name, bool first, bool *ret_more,
                         struct err *err)
{
    yaml_document_t doc;
    int rc = 0;
    if (!yaml_parser_load(parser, &doc))
        return syntax_error(conf, parser, name, err);
    struct reading r = {conf, &doc, name, 0, err};
    const yaml_node_t *root = yaml_document_get_root_node(&doc);
    *ret_more = root != NULL;
    if (root && !first)
        rc = mistake(&r, root, "a second document in", name, "");
    else if (root && root->type == YAML_MAPPING_NODE)
        rc = walk(&r, root, "", 0);
    else if (root && !is_null(root))
        rc = mistake(&r, root, "not a mapping of keys to values:", name, "");
    yaml_document_delete(&doc);
    return rc;
}

int conf_read_text(struct conf *conf, const char *text, const char *name,
                   struct err *err)
{
    yaml_parser_t parser;
    bool more;
    if (!yaml_parser_initialize(&parser))
        return err_set(err, "conf: out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text,
                                 strlen(text));
    conf->read_no++;
    int rc = read_document(conf, &parser, name, true, &more, err);
    if (!rc && more)
        rc = read_document(conf, &parser, name, false, &more, err);
    yaml_parser_delete(&parser);
    return rc;
}

int conf_read_file(struct conf *conf, const char *path, struct err *err)
{
    struct err why = ERR_INIT;
    size_t bytes;
    char *text = file_read(path, FILE_MAX_BYTES, &bytes, &why);
    if (!text)
        return conf_mistake(conf, err, "conf: cannot read the configuration: "
                            "%s", why.msg);
    int rc = strlen(text) != bytes
                 ? conf_mistake(conf, err, "conf: %s: not YAML: it has NUL "
                                "characters", path)
                 : conf_read_text(conf, text, path, err);
    free(text);
    return rc;
}
