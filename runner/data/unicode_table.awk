# Makes unicode_table.h: which code points are letters, numbers and white
# space. Run by hand when a new Unicode comes; the result is in the tree.
#
#   awk -f table.awk -f unicode_table.awk \
#       /usr/share/unicode/UnicodeData.txt \
#       /usr/share/unicode/PropList.txt > unicode_table.h
#   awk -v name=case -f ... > unicode_case_table.h
#
# (Debian: unicode-data.) Two stages (table.awk), blocks of 64 bytes, two bits
# a code point: 0 other, 1 L, 2 N, 3 space; with name=case: 1 upper and title
# case, 2 lower case, 3 other letters and marks.
BEGIN {
    FS = ";"
    if (!name)
        name = "table"
    prefix = name == "case" ? "unicode_case" : "unicode"
}

function value_of(category) {
    if (name != "case")
        return category ~ /^L/ ? 1 : category ~ /^N/ ? 2 : 0
    return category ~ /^L[ut]/ ? 1 : category == "Ll" ? 2 : \
        category ~ /^[LM]/ ? 3 : 0
}

FILENAME ~ /UnicodeData/ {
    code = hex($1)
    value = value_of($3)
    from = $2 ~ /, Last>$/ ? last + 1 : code
    if (value)
        for (c = from; c <= code; c++)
            class[c] = value
    last = code
}

FILENAME ~ /PropList/ && /; White_Space/ && name == "table" {
    split($1, range, /\.\.| /)
    to = range[2] == "" ? range[1] : range[2]
    for (c = hex(range[1]); c <= hex(to); c++)
        class[c] = 3
}

FILENAME ~ /PropList/ && FNR == 1 { version = version_of($0) }

END {
    for (b = 0; b < 4352; b++) {
        text = ""
        for (i = 0; i < 64; i++) {
            byte = 0
            for (k = 3; k >= 0; k--)
                byte = byte * 4 + class[b * 256 + i * 4 + k]
            text = text byte ","
        }
        stage_add(b, text)
    }
    print "/* unicode_" (name == "case" ? "case_table" : name) \
        " - made by unicode_table.awk from Unicode " version
    print " * (unicode.org/license); do not edit. */"
    print "#define UNICODE_" toupper(name) "_VERSION \"" version "\""
    stages_print(prefix "_index", prefix "_block", 4352, 64)
}
