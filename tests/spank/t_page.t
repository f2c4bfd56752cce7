#!/bin/bash
# Every option of the plugin and every word of plugstack.conf that it reads is
# in spank_koboshi(8), and the page has no other.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tap.sh"
cd "$here/../.." || exit 1
page=$(sed 's/\\-/-/g' man/spank_koboshi.8)
words=$(sed -n 's/^    {"\([a-z_]*\)", ARG_.*/\1/p' spank/args.c | sort)
listed=$(sed -n '/^.SH PLUGSTACK.CONF/,/^.SH FILES/p' <<<"$page" |
    sed -n 's/^\.BI \([a-z_]*\)= .*/\1/p' | sort)
[ "$(wc -l <<<"$words")" -ge 10 ]
is $? 0 "words are found"
is "$listed" "$words" "plugstack.conf's words"
options=$(sed -n 's/^ *\[OPTION_[A-Z_]*\] = {"\(llm-[a-z-]*\)".*/\1/p' spank/options.c | sort)
listed=$(sed -n '/^.SH OPTIONS/,/^.SH SUBMITTING/p' <<<"$page" |
    sed -n 's/^\.BI\? --\(llm-[a-z-]*\).*/\1/p' | sort)
is "$listed" "$options" "options"
tap_done
