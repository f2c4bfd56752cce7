/* pmix_hello - a rank that wires itself by PMIx, passes a fence with all the
 * others, and says who it is: the least that the cluster must offer. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>

static int job_size(const pmix_proc_t *self, unsigned *ret)
{
    pmix_proc_t all = *self;
    pmix_value_t *value = NULL;
    all.rank = PMIX_RANK_WILDCARD;
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value) != PMIX_SUCCESS)
        return -1;
    *ret = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return 0;
}

int main(void)
{
    pmix_proc_t self;
    unsigned size = 0;
    if (PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr, "pmix_hello: no PMIx server here\n");
        return 1;
    }
    if (job_size(&self, &size) || PMIx_Fence(NULL, 0, NULL, 0) != PMIX_SUCCESS) {
        fprintf(stderr, "pmix_hello: rank %u: the fence failed\n", self.rank);
        return 1;
    }
    printf("rank %u of %u\n", self.rank, size);
    fflush(stdout);
    return PMIx_Finalize(NULL, 0) != PMIX_SUCCESS;
}
