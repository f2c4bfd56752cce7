#!/bin/bash
# The tarball of `make dist` has every file of the tree: a file that no
# makefile names is missed only by those who have no git.
. "$(dirname "$0")/lint.sh"
git -C "$LINT_TREE" rev-parse --git-dir >/dev/null 2>&1 || skip_all "not a git checkout"
[ -f "$LINT_BUILD/Makefile" ] || skip_all "nothing is configured in $LINT_BUILD"

# What stays out on purpose.
not_shipped='^(\.gitignore|\.ci/)'

# The makefile's own list, folders as they are.
shipped=$(printf 'include Makefile\nlist:\n\t@printf "%%s\\n" $(DISTFILES) $(DIST_COMMON)\n' |
    make -s -C "$LINT_BUILD" -f - list 2>/dev/null |
    sed "s|^$LINT_TREE/||; s|^\.\./||" | sort -u)
ok "the makefile lists what it ships" test -n "$shipped"
is "$(git ls-files | grep -vE "$not_shipped" |
    awk -v shipped="$shipped" '
        BEGIN { n = split(shipped, all, "\n"); for (i in all) has[all[i]] = 1 }
        {
            path = $0
            while (!(path in has) && sub("/[^/]*$", "", path)) { }
            if (!(path in has)) print
        }')" "" "every file of the tree is shipped"
# What configure cannot do without, ./check and ./demo install.
. tests/prepare.sh
is "$(sed -n 's/^KB_NEED(.*\[\([^]]*\)\])$/\1/p' configure.ac | while read -r package; do
    grep -qw -- "$package" <<<"$PREPARE_PACKAGES" || echo "$package"
done)" "" "every package that configure needs is installed by check and demo"
like "$(grep AM_INIT_AUTOMAKE configure.ac)" "tar-(ustar|pax)" \
    "names longer than 99 bytes fit into the tarball"
tap_done
