# What the makers of the Unicode tables share: hexadecimal numbers, lists as
# full lines, and two-stage tables: a block number for each 256 code points,
# and the blocks, each kind once.
function hex(text,   i, v) {
    v = 0
    for (i = 1; i <= length(text); i++)
        v = v * 16 + index("0123456789ABCDEF", substr(text, i, 1)) - 1
    return v
}

function list_begin(head) {
    print head " = {"
    line = "   "
}

# No blanks within a list, one before each of its lines.
function list_put(item) {
    if (length(line) + length(item) > 78) {
        print line
        line = "   "
    }
    line = line (line == "   " ? " " : "") item
}

function list_end() {
    print line
    print "};"
}

# Block b as its numbers, each with a comma behind.
function stage_add(b, text) {
    if (!(text in block_number)) {
        block_number[text] = blocks_n + 0
        block[blocks_n++] = text
    }
    block_of[b] = block_number[text]
}

function stages_print(index_name, block_name, index_n, block_bytes,   b, i, v) {
    list_begin("static const unsigned char " index_name "[" index_n "]")
    for (b = 0; b < index_n; b++)
        list_put(block_of[b] ",")
    list_end()
    list_begin("static const unsigned char " block_name "[" blocks_n "][" \
        block_bytes "]")
    for (b = 0; b < blocks_n; b++) {
        split(block[b], v, ",")
        for (i = 1; i <= block_bytes; i++)
            list_put((i > 1 ? "" : "{") v[i] (i < block_bytes ? "," : "},"))
    }
    list_end()
}

# "15.0.0" of the first line of the file NAME-15.0.0.txt.
function version_of(first_line) {
    sub(/^# [A-Za-z]+-/, "", first_line)
    sub(/\.txt.*/, "", first_line)
    return first_line
}
