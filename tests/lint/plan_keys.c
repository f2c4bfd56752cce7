/* plan_keys - prints the keys of run.yaml, a line each, for t_man.t. */
#include <stdio.h>

#include "runner/plan/plan.h"

int main(void)
{
    for (int i = 0; i < plan_rows_n; i++)
        puts(plan_rows[i].key);
    return 0;
}
