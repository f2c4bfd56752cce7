/* reduce - an all-reduce of this GPU with others, through comm: right sums, and
 * how fast. Each GPU is a rank; who is who comes with the command. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "health/active/gpu.h"
#include "runner/base/clock.h"
#include "runner/base/contract.h"
#include "runner/comm/comm.h"

#define BYTES ((int64_t)512 << 20)
#define MEET_S 10.0
enum { ROUNDS = 3, TIMES = 5 };

/* comm reads it from there. */
static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_place(const struct reduce_place *place)
{
    set_number(KB_ENV_RANK, place->rank);
    set_number(KB_ENV_WORLD_SIZE, place->size);
    set_number(KB_ENV_LOCAL_RANK, place->local_rank);
    set_number(KB_ENV_LOCAL_WORLD_SIZE, place->local_size);
    setenv(KB_ENV_MASTER_ADDR, place->address, 1);
    set_number(KB_ENV_MASTER_PORT, place->port);
    unsetenv(KB_ENV_NODE_RANK);
}

/* `times` all-reduces, one after the other, of what fill put there. */
static int sum(struct gpu_active *gpu, struct comm *comm, int times,
               double *ret_ms, struct err *err)
{
    if (checks_reduce_fill(gpu->arena, BYTES / 4, comm_place(comm)->rank,
                           gpu->stream) ||
        device_sync(gpu->device, gpu->stream) != K_OK)
        return err_set(err, "filling: %s", device_error(gpu->device));
    if (comm_barrier(comm, MEET_S, err))
        return -1;
    device_event_record(gpu->device, gpu->from, gpu->stream);
    for (int i = 0; i < times; i++)
        if (comm_all_reduce(comm, COMM_WORLD, gpu->arena, BYTES / 4, DT_F32,
                            gpu->stream, NULL, err))
            return -1;
    device_event_record(gpu->device, gpu->to, gpu->stream);
    if (device_sync(gpu->device, gpu->stream) != K_OK)
        return err_set(err, "%s", device_error(gpu->device));
    *ret_ms = device_event_ms(gpu->device, gpu->from, gpu->to) / times;
    return 0;
}

/* One that is checked, some that are timed, and one that is checked. */
static int run(struct gpu_active *gpu, struct comm *comm,
               double *ret_gb_per_s, struct checks_wrong *ret_wrong,
               struct err *err)
{
    int size = comm_place(comm)->size;
    double best_ms = 0, ms = 0;
    checks_clear(gpu->wrong, gpu->stream);
    for (int i = 0; i < ROUNDS + 2; i++) {
        bool checked = i == 0 || i == ROUNDS + 1;
        if (sum(gpu, comm, checked ? 1 : TIMES, &ms, err))
            return -1;
        if (!checked && (best_ms <= 0 || ms < best_ms))
            best_ms = ms;
        if (!i && gpu_corrupts(gpu, "reduce"))
            checks_flip(gpu->arena, 777, 1ull << 20, gpu->stream);
        if (checked)
            checks_reduce_read(gpu->arena, BYTES / 4, size, gpu->wrong,
                               gpu->stream);
    }
    *ret_gb_per_s =
        2.0 * (size - 1) / size * (double)BYTES / 1e6 / best_ms;
    return gpu_wrong(gpu, ret_wrong) ? err_set(err, "the GPU failed") : 0;
}

static void say_failure(const struct gpu_active *gpu,
                        const struct reduce_place *place,
                        const struct err *err)
{
    gpu_say(gpu, "reduce", json_pack("{s:s s:i s:s}", "what", place->what,
                                     "ranks", place->size, "error", err->msg));
}

int reduce_run(struct gpu_active *gpu, const struct reduce_place *place)
{
    struct comm_place where;
    struct comm_spec spec = {.kind = DEVICE_CUDA,
                             .device = gpu->device,
                             .data = place->size,
                             .tensor = 1,
                             .pipeline = 1,
                             .wireup_limit_s = place->wireup_s};
    struct checks_wrong wrong;
    struct err err = ERR_INIT;
    double gb_per_s, begin_s = clock_mono_s();
    set_place(place);
    struct comm *comm = NULL;
    if (!comm_find_place(&where, &err))
        comm = comm_open(&where, &spec, &err);
    if (!comm) {
        say_failure(gpu, place, &err);
        return 0;
    }
    double wireup_s = clock_mono_s() - begin_s;
    if (run(gpu, comm, &gb_per_s, &wrong, &err)) {
        say_failure(gpu, place, &err);
        comm_abort(comm);
        return -1;
    }
    json_t *said = json_pack("{s:s s:i s:f s:f}", "what", place->what, "ranks",
                             place->size, "gb_per_s", gb_per_s, "wireup_s",
                             wireup_s);
    gpu_add_wrong(said, &wrong);
    gpu_say(gpu, "reduce", said);
    comm_close(comm);
    return 0;
}
