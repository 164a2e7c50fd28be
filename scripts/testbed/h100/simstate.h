/* State and faults of the simulated NVML. nvmlsim.c documents the format of the state file. */
#ifndef SIMSTATE_H
#define SIMSTATE_H

#include <stddef.h>
#include <time.h>

#define HIDDEN __attribute__((visibility("hidden")))
#define MAX_GPUS 64
#define SYSTEM (-1) /* in place of a GPU's index: keys that begin with "sys." */

typedef unsigned int u32;
typedef unsigned long long u64;
typedef int Return; /* nvmlReturn_t */

enum {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    TIMEOUT = 10,
    GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25,
};

typedef struct {
    long seq;
    int gpu;
    u64 type, data;
} SimEvent;

/* Reads the state file again; every call of the library starts with it. */
HIDDEN void sim_reload(void);

/* The value of "gpu.N.KEY", else of "gpu.*.KEY" ("sys.KEY" for SYSTEM); false when neither exists. */
HIDDEN int sim_text(int gpu, char *out, size_t room, const char *key, ...) __attribute__((format(printf, 4, 5)));
HIDDEN u64 sim_number(int gpu, u64 otherwise, const char *key, ...) __attribute__((format(printf, 3, 4)));
HIDDEN u64 sim_link(int gpu, u32 link, u64 otherwise, const char *key);
HIDDEN int sim_gpu_count(void);

/* Whether any line is about a field value ("gpu.3.field.230", "gpu.3.fieldrc.82"). */
HIDDEN int sim_any_field(void);

/* The first event after `after` of the GPUs and types in `masks`, else false. */
HIDDEN int sim_next_event(const u64 masks[MAX_GPUS], const long after[MAX_GPUS], SimEvent *out);
HIDDEN long sim_newest_event(void);

/* Delays, blocks or fails a call as the state requires; the code that the call must return, or SUCCESS. */
HIDDEN Return sim_enter(const char *symbol, int gpu);

HIDDEN void sim_initialized(int change);
HIDDEN int sim_is_initialized(void);

HIDDEN void sim_sleep_ms(long ms);
HIDDEN u64 sim_now_us(clockid_t clock);

#endif
