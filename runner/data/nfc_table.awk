# Makes nfc_table.h: what normalisation form C needs to know. Run by hand when
# a new Unicode comes; the result is in the tree.
#
#   awk -f table.awk -f nfc_table.awk /usr/share/unicode/UnicodeData.txt \
#       /usr/share/unicode/DerivedNormalizationProps.txt > nfc_table.h
#
# (Debian: unicode-data.) Hangul is computed, not listed.
BEGIN {
    FS = ";"
    runs = 0
}

FILENAME ~ /UnicodeData/ {
    code = hex($1)
    if ($4 > 0) {
        if (runs && code == to[runs - 1] + 1 && $4 == class[runs - 1]) {
            to[runs - 1] = code
        } else {
            from[runs] = to[runs] = code
            class[runs++] = $4
        }
        flag[code] = 1
    }
    if ($6 != "" && $6 !~ /</) {
        split($6, part, " ")
        whole[wholes++] = code
        first[code] = hex(part[1])
        second[code] = part[2] == "" ? 0 : hex(part[2])
    }
}

FILENAME ~ /Derived/ && FNR == 1 { version = version_of($0) }

FILENAME ~ /Derived/ && ($2 ~ /^ NFC_QC/ || $2 ~ /^ Full_Composition_Excl/) {
    split($1, range, /\.\.| /)
    end = range[2] == "" ? range[1] : range[2]
    for (c = hex(range[1]); c <= hex(end); c++)
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
    print "    uint32_t first, last;"
    print "    uint8_t class;"
    list_begin("} nfc_class[]")
    for (i = 0; i < runs; i++)
        list_put("{" from[i] "," to[i] "," class[i] "},")
    list_end()
    print "/* By the whole; second 0: one code point becomes another. */"
    print "static const struct {"
    print "    uint32_t whole, first, second;"
    list_begin("} nfc_parts[]")
    for (i = 0; i < wholes; i++) {
        c = whole[i]
        list_put("{" c "," first[c] "," second[c] "},")
    }
    list_end()
    # Those that join, by first and second: a sort of the keys.
    for (i = 0; i < wholes; i++) {
        c = whole[i]
        if (second[c] && !(c in excluded)) {
            key = first[c] * 2097152 + second[c]
            j = pairs++
            while (j > 0 && pair[j - 1] > key) {
                pair[j] = pair[j - 1]
                row[j] = row[j - 1]
                j--
            }
            pair[j] = key
            row[j] = i
        }
    }
    print "/* Rows of nfc_parts that may be joined, by first and second. */"
    list_begin("static const uint16_t nfc_pair[]")
    for (i = 0; i < pairs; i++)
        list_put(row[i] ",")
    list_end()
    for (c in flag)
        if (c / 256 >= flags_n)
            flags_n = int(c / 256) + 1
    print "/* Code points that may change or change their neighbours; behind " \
        "the last\n * block are none. */"
    for (b = 0; b < flags_n; b++) {
        text = ""
        for (i = 0; i < 32; i++) {
            byte = 0
            for (k = 7; k >= 0; k--)
                byte = byte * 2 + flag[b * 256 + i * 8 + k]
            text = text byte ","
        }
        stage_add(b, text)
    }
    stages_print("nfc_index", "nfc_flags", flags_n, 32)
}
