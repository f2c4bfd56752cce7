/* stop - requests by signal. The handler sets a flag only; the step loop looks
 * at it between steps and all ranks agree in the step's own reduction. */
#include <signal.h>
#include <string.h>

#include "runner/train/train.h"

static volatile sig_atomic_t stop_wanted, save_wanted;

static void on_signal(int signal)
{
    if (signal == SIGUSR2)
        save_wanted = 1;
    else
        stop_wanted = 1;
}

void stop_install(void)
{
    static const int signals[] = {SIGUSR1, SIGUSR2, SIGTERM};
    struct sigaction action = {.sa_handler = on_signal,
                               .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++)
        sigaction(signals[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

int64_t stop_flags(void)
{
    int64_t flags = stop_wanted ? FLAG_STOP : 0;
    if (save_wanted) {
        save_wanted = 0;
        flags |= FLAG_SAVE;
    }
    return flags;
}
