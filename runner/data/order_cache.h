/* order_cache - a part of an order as a file that all ranks map.
 *
 * DIR/KEY.order: a header (order_cache.c), then the part's arrays. KEY is a
 * hash of all that the part follows from. The file is written whole under
 * another name and renamed; what is read is checked by its header, size and
 * sum. Of many ranks that want it at once one makes it, the others wait as
 * long as they see that one at work, and else make it for themselves: nothing
 * but time hangs on it, and the folder may be removed at any time.
 */
#ifndef KB_DATA_ORDER_CACHE_H
#define KB_DATA_ORDER_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "runner/data/order.h"

/* What a part follows from. */
struct order_key {
    uint64_t fingerprint; /* of the token file */
    int64_t first, n, seq_len, seed, part, requested_n;
};

struct order_claim; /* "I make it" */

/* Map the part, its arrays borrowed from the map; false: there is none that
 * is good. */
bool order_cache_load(const char *dir, const struct order_key *key,
                      struct order_part *ret);
/* Wait for the one who makes it, up to patience_s without a sign of it. The
 * part as above, or false and it is ours to make: *ret_claim, NULL if another
 * is too slow or the folder is no use. */
bool order_cache_wait(const char *dir, const struct order_key *key,
                      double patience_s, struct order_part *ret,
                      struct order_claim **ret_claim);
void order_claim_beat(struct order_claim *claim); /* still at it */
void order_claim_end(struct order_claim *claim);
/* Write a part that was made; what fails is no error. */
void order_cache_save(const char *dir, const struct order_key *key,
                      const struct order_part *part,
                      struct order_claim *claim);
void order_cache_unmap(struct order_part *part);

#endif
