# Makes nfc_table.h: what normalisation form C needs to know. Run by hand when
# a new Unicode comes; the result is in the tree.
#
#   awk -f nfc_table.awk /usr/share/unicode/UnicodeData.txt \
#       /usr/share/unicode/DerivedNormalizationProps.txt > nfc_table.h
#
# (Debian: unicode-data.) Hangul is computed, not listed.
BEGIN { FS = ";" }

function hex(text,   i, v) {
    v = 0
    for (i = 1; i <= length(text); i++)
        v = v * 16 + index("0123456789ABCDEF", substr(text, i, 1)) - 1
    return v
}

FILENAME ~ /UnicodeData/ {
    code = hex($1)
    if ($4 > 0) {
        order[orders++] = code
        class[code] = $4
        flag[code] = 1
    }
    if ($6 != "" && $6 !~ /</) {
        split($6, part, " ")
        whole[wholes++] = code
        first[code] = hex(part[1])
        second[code] = part[2] == "" ? 0 : hex(part[2])
    }
}

FILENAME ~ /Derived/ && FNR == 1 {
    version = $0
    sub(/^# DerivedNormalizationProps-/, "", version)
    sub(/\.txt.*/, "", version)
}

FILENAME ~ /Derived/ && ($2 ~ /^ NFC_QC/ || $2 ~ /^ Full_Composition_Excl/) {
    split($1, range, /\.\.| /)
    to = range[2] == "" ? range[1] : range[2]
    for (c = hex(range[1]); c <= hex(to); c++)
        if ($2 ~ /NFC_QC/)
            flag[c] = 1
        else
            excluded[c] = 1
}

END {
    print "/* nfc_table - made by nfc_table.awk from Unicode " version
    print " * (unicode.org/license); do not edit. */"
    print "#include <stdint.h>\n"
    print "static const struct {"
    print "    uint32_t code;"
    print "    uint8_t class;"
    print "} nfc_class[] = {"
    for (i = 0; i < orders; i++)
        printf "%s{%d,%d},", i % 5 ? "" : "\n    ", order[i], class[order[i]]
    print "\n};"
    print "/* By the whole; second 0: one code point becomes another. */"
    print "static const struct {"
    print "    uint32_t whole, first, second;"
    print "} nfc_parts[] = {"
    for (i = 0; i < wholes; i++)
        printf "%s{%d,%d,%d},", i % 3 ? "" : "\n    ", whole[i],
            first[whole[i]], second[whole[i]]
    print "\n};"
    # By first and second: counted into place by a sort of the keys.
    for (i = 0; i < wholes; i++) {
        c = whole[i]
        if (second[c] && !(c in excluded)) {
            key = first[c] * 2097152 + second[c]
            j = pairs++
            while (j > 0 && pair[j - 1] > key) {
                pair[j] = pair[j - 1]
                made[j] = made[j - 1]
                j--
            }
            pair[j] = key
            made[j] = c
        }
    }
    print "/* By first << 21 | second. */"
    print "static const struct {"
    print "    uint64_t pair;"
    print "    uint32_t whole;"
    print "} nfc_pair[] = {"
    for (i = 0; i < pairs; i++)
        printf "%s{%.0f,%d},", i % 3 ? "" : "\n    ", pair[i], made[i]
    print "\n};"
    print "/* Code points that may change or change their neighbours. */"
    for (b = 0; b < 4352; b++) {
        text = ""
        for (i = 0; i < 32; i++) {
            byte = 0
            for (k = 7; k >= 0; k--)
                byte = byte * 2 + flag[b * 256 + i * 8 + k]
            text = text sprintf("%s%d,", i % 16 ? "" : "\n     ", byte)
        }
        if (!(text in number)) {
            number[text] = blocks
            block[blocks++] = text
        }
        index_of[b] = number[text]
    }
    printf "static const unsigned char nfc_index[4352] = {"
    for (b = 0; b < 4352; b++)
        printf "%s%d,", b % 16 ? "" : "\n    ", index_of[b]
    print "\n};"
    printf "static const unsigned char nfc_flags[%d][32] = {", blocks
    for (b = 0; b < blocks; b++)
        printf "\n    {%s},", block[b]
    print "\n};"
}
