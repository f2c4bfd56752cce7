/* site - what a site expects of this node and where it draws the lines: the
 * keys of /etc/koboshi/health.yaml, one row each, and a severity for every
 * finding that it judges otherwise.
 */
#ifndef KB_HEALTH_SITE_H
#define KB_HEALTH_SITE_H

#include "health/catalog.h"
#include "runner/base/conf.h"

#define SITE_FILE KB_SYSCONFDIR "/koboshi/health.yaml"

/* With path NULL the site's file if there is one, else the defaults. NULL on
 * failure: unknown key, wrong range. */
struct conf *site_open(const char *path, struct err *err);
/* The finding's severity as this site sees it. */
enum finding_severity site_severity(const struct conf *site,
                                    enum finding_code code);
/* For --help: the keys that are not severities. */
void site_help(struct sbuf *out);

#endif
