/* Fuzz target: the header of a safetensors file. The input is the file. */
#include "runner/ckpt/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/driver.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct err err = ERR_INIT;
    struct st_header header;
    if (bytes < 8)
        return 0;
    int64_t n = st_header_bytes(data, (int64_t)bytes, "input", &err);
    if (n < 0)
        return 0;
    if (!st_parse((const char *)data + 8, (size_t)n, (int64_t)bytes, "input",
                  &header, &err)) {
        int64_t at = 0; /* what was accepted covers the data */
        for (int i = 0; i < header.n; i++) {
            if (header.entries[i].begin != at)
                abort();
            at = header.entries[i].end;
        }
        if (at != (int64_t)bytes - header.data_at)
            abort();
        st_release(&header);
    }
    return 0;
}

#ifndef KB_LIBFUZZER
int main(void)
{
    static const char json[] =
        "{\"__metadata__\":{\"format\":\"pt\"},\"w\":{\"dtype\":\"BF16\","
        "\"shape\":[2,2],\"data_offsets\":[0,8]},\"x@0+1\":{\"dtype\":\"F4\","
        "\"shape\":[2,1],\"data_offsets\":[8,9]},\"e\":{\"dtype\":\"F64\","
        "\"shape\":[0],\"data_offsets\":[9,9]}}";
    unsigned char file[600] = {sizeof json - 1};
    memcpy(file + 8, json, sizeof json - 1);
    struct err err = ERR_INIT;
    struct st_header header;
    ok(!st_parse(json, sizeof json - 1, 8 + sizeof json - 1 + 9, "seed",
                 &header, &err) &&
           header.n == 3,
       "the seed is a good header");
    st_release(&header);
    driver_run("a small file", file, 8 + sizeof json - 1 + 9, 200000);
    return tap_done();
}
#endif
