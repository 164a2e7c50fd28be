/* A simulated libnvidia-ml.so.1: eight healthy H100s on an HGX board, and any fault on demand.
 * Written from NVIDIA's public documentation and the declarations in nvidia-ml-py; no NVIDIA code is used.
 *
 *   cc -O1 -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o libnvidia-ml.so.1 nvmlsim.c simstate.c -lpthread
 *
 * The state file (/sim/nvml.state, or what NVMLSIM_STATE names) is read again at EVERY call, so a fault appears in
 * programs that are already running. One "key = value" per line, '#' comments, the last line of a key wins, a last line
 * without '\n' is ignored (a write in progress), a missing file is a healthy node. "*" for a GPU or a link means
 * all without a line of their own.
 *
 *   count = 8                                   how many GPUs NVML reports
 *   sys.driver|sys.nvml|sys.cuda = ...          versions
 *   gpu.3.temp = 91                             a value (see its key at each function below)
 *   gpu.3.pcie_replay = 150+2/s@1767225600      a growing number: 2 a second since then (seconds since 1970)
 *   gpu.3.link.7.state = 0                      of an NVLink: state crc replay recovery remote remote_type
 *   gpu.3.field.230 = 1                         of nvmlDeviceGetFieldValues, by field id
 *   gpu.3.fieldrc.82 = 3                        return code of that field
 *   gpu.3.proc = 4242:1073741824 4300:2048      compute processes, pid:bytes
 *   gpu.3.lost = 1                              each call of this GPU and each wait for events: GPU_IS_LOST (15)
 *   gpu.3.rc.nvmlDeviceGetTemperature = 999     return code of one call ("rc.*": of all)
 *   gpu.3.ms.nvmlDeviceGetPowerUsage = 250      added latency in milliseconds ("ms.*")
 *   gpu.3.hang.nvmlDeviceGetPowerUsage = 1      block until "= 0", at most ten minutes ("hang.*")
 *                                      = D      the same in state D; SIGKILL still ends the process
 *                                      = K      the same, and the process survives SIGKILL until "= 0"
 *   sys.rc.|sys.ms.|sys.hang.SYMBOL             the same for calls without a GPU
 *   event = 1:3:8:79                            seq:gpu:type:data; seq increases; delivered once to each event set
 *                                               that was registered before the line was written
 * NVMLSIM_TRACE=FILE appends "pid symbol gpu rc" for every call.
 *
 * Defaults are those of a real healthy 8x H100 SXM with driver 580.105.08, whose counters are not all zero.
 */
#define _GNU_SOURCE
#include "simstate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default"))) Return

/* ---- ABI: sizes as nvidia-ml-py declares them -------------------------------------------------------- */

#define DEVICE_MAGIC 0x6e766d6c
typedef struct {
    u32 magic;
    int index;
} DeviceData, *Device;

typedef struct {
    char legacy_bus_id[16];
    u32 domain, bus, device, pci_id, subsystem_id;
    char bus_id[32];
} PciInfo;
typedef struct {
    u32 field, scope;
    long long timestamp_us, latency_us;
    u32 value_type;
    Return rc;
    u64 value;
} FieldValue;
typedef struct {
    Device device;
    u64 type, data;
    u32 gpu_instance, compute_instance;
} EventData;
typedef struct {
    u32 pid;
    u64 used_bytes;
    u32 gpu_instance, compute_instance;
} ProcessInfo;
typedef struct {
    u64 total, free, used;
} Memory;
typedef struct {
    u32 version;
    u64 total, reserved, free, used;
} MemoryV2;
typedef struct {
    u32 max, high, partial, low, none;
} RowHistogram;
typedef struct {
    unsigned char uuid[16];
    u32 status, clique;
    unsigned char state;
} FabricV1;
typedef struct {
    u32 version;
    unsigned char uuid[16];
    u32 status, clique;
    unsigned char state;
    u32 health;
    unsigned char summary; /* from version 3 on */
} FabricV3;
typedef struct {
    u32 version;
    u64 aggregate_parity, aggregate_uncorrected, aggregate_corrected;
    u64 volatile_parity, volatile_uncorrected, volatile_corrected;
    u64 buckets[5];
    u32 threshold_exceeded;
} SramStatus;
typedef struct {
    u32 version, first, second;
} Pair;
typedef struct {
    u64 reference_us, violation_ns;
} Violation;

_Static_assert(sizeof(PciInfo) == 68, "nvmlPciInfo_t");
_Static_assert(sizeof(FieldValue) == 40, "nvmlFieldValue_t");
_Static_assert(sizeof(EventData) == 32, "nvmlEventData_t");
_Static_assert(sizeof(ProcessInfo) == 24, "nvmlProcessInfo_v2_t");
_Static_assert(sizeof(MemoryV2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(FabricV3) == 40, "nvmlGpuFabricInfo_v3_t");
_Static_assert(sizeof(SramStatus) == 0x68, "nvmlEccSramErrorStatus_v1_t");
_Static_assert(sizeof(Pair) == 12, "nvmlTemperature_v1_t");

enum { /* size of the struct | version << 24 */
    TEMPERATURE_V1 = 0x0100000C,
    MARGIN_V1 = 0x01000008,
    REPAIR_V1 = 0x0100000C,
    MEMORY_V2 = 0x02000028,
    SRAM_V1 = 0x01000068,
    FABRIC_V2 = 0x02000024,
    FABRIC_V3 = 0x03000028,
};

/* ---- how a call begins ------------------------------------------------------------------------------- */

static DeviceData devices[MAX_GPUS];

#define ENTER_SYSTEM()                             \
    do {                                           \
        Return rc_ = sim_enter(__func__, SYSTEM);  \
        if (rc_) return rc_;                       \
    } while (0)

/* Declares `gpu`, the index behind a handle. */
#define ENTER_DEVICE(handle)                                                    \
    int gpu = index_of(handle);                                                 \
    do {                                                                        \
        if (gpu < 0) return sim_is_initialized() ? INVALID_ARGUMENT : UNINITIALIZED; \
        Return rc_ = sim_enter(__func__, gpu);                                  \
        if (rc_) return rc_;                                                    \
    } while (0)

#define NEED(condition, code) \
    do {                      \
        if (!(condition)) return (code); \
    } while (0)

static int index_of(Device handle) {
    int ours = handle && handle >= devices && handle < devices + MAX_GPUS && handle->magic == DEVICE_MAGIC;
    return ours ? handle->index : -1;
}

static u32 number(int gpu, u64 otherwise, const char *key) { return (u32)sim_number(gpu, otherwise, "%s", key); }

static Return copy(char *out, u32 room, const char *value) {
    NEED(out, INVALID_ARGUMENT);
    NEED(strlen(value) < room, INSUFFICIENT_SIZE);
    strcpy(out, value);
    return SUCCESS;
}

static __attribute__((format(printf, 5, 6))) Return text_value(int gpu, char *out, u32 room, const char *key,
                                                               const char *otherwise, ...) {
    char value[128];
    va_list words;
    if (!sim_text(gpu, value, sizeof value, "%s", key)) {
        va_start(words, otherwise);
        vsnprintf(value, sizeof value, otherwise, words);
        va_end(words);
    }
    return copy(out, room, value);
}

/* ---- library and system ------------------------------------------------------------------------------ */

static Return initialize(const char *symbol) {
    Return rc = sim_enter(symbol, SYSTEM);
    NEED(!rc, rc);
    for (int i = 0; i < MAX_GPUS; i++) devices[i] = (DeviceData){DEVICE_MAGIC, i};
    sim_initialized(+1);
    return SUCCESS;
}

API nvmlInitWithFlags(u32 flags) {
    (void)flags;
    return initialize(__func__);
}
API nvmlInit_v2(void) { return initialize(__func__); }
API nvmlInit(void) { return initialize(__func__); }
API nvmlShutdown(void) {
    ENTER_SYSTEM();
    sim_initialized(-1);
    return SUCCESS;
}

__attribute__((visibility("default"))) const char *nvmlErrorString(Return rc) {
    static const char *const names[] = {
        "Success", "Uninitialized", "Invalid Argument", "Not Supported", "Insufficient Permissions",
        "Already Initialized", "Not Found", "Insufficient Size", "Insufficient External Power", "Driver Not Loaded",
        "Timeout", "Interrupt Request Issue", "NVML Shared Library Not Found", "Function Not Found",
        "Corrupted infoROM", "GPU is lost", "GPU requires reset", "The operating system has blocked the request.",
        "RM has detected an NVML/RM version mismatch.", "In use by another client", "Insufficient Memory", "No data",
    };
    return rc >= 0 && rc < (int)(sizeof names / sizeof *names) ? names[rc] : "Unknown Error";
}

API nvmlSystemGetDriverVersion(char *out, u32 room) {
    ENTER_SYSTEM();
    return text_value(SYSTEM, out, room, "driver", "580.105.08");
}
API nvmlSystemGetNVMLVersion(char *out, u32 room) {
    ENTER_SYSTEM();
    return text_value(SYSTEM, out, room, "nvml", "13.580.105.08");
}
API nvmlSystemGetCudaDriverVersion(int *out) {
    ENTER_SYSTEM();
    *out = (int)number(SYSTEM, 13000, "cuda");
    return SUCCESS;
}
API nvmlSystemGetCudaDriverVersion_v2(int *out) {
    ENTER_SYSTEM();
    *out = (int)number(SYSTEM, 13000, "cuda");
    return SUCCESS;
}
API nvmlSystemGetProcessName(u32 pid, char *out, u32 room) {
    char path[64], name[256] = "";
    ENTER_SYSTEM();
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *file = fopen(path, "re");
    NEED(file, NOT_FOUND);
    if (!fgets(name, sizeof name, file)) name[0] = 0;
    fclose(file);
    name[strcspn(name, "\n")] = 0;
    return copy(out, room, name);
}

/* ---- handles and identity ---------------------------------------------------------------------------- */

static void uuid_of(int gpu, char out[96]) {
    if (!sim_text(gpu, out, 96, "uuid")) snprintf(out, 96, "GPU-%08x-0000-4000-8000-%012x", gpu + 1, gpu + 1);
}

static void serial_of(int gpu, char out[96]) {
    if (!sim_text(gpu, out, 96, "serial")) snprintf(out, 96, "16500000000%02d", gpu + 1);
}

static u32 bus_of(int gpu) {
    static const u32 hgx[8] = {0x53, 0x64, 0x75, 0x86, 0x97, 0xa8, 0xb9, 0xca};
    return number(gpu, gpu < 8 ? hgx[gpu] : 0x10 + (u32)gpu, "bus");
}

static void fill_pci(PciInfo *out, u32 domain, u32 bus, u32 pci_id, u32 subsystem_id) {
    *out = (PciInfo){.domain = domain, .bus = bus, .pci_id = pci_id, .subsystem_id = subsystem_id};
    snprintf(out->legacy_bus_id, sizeof out->legacy_bus_id, "%04X:%02X:00.0", domain & 0xffff, bus & 0xff);
    snprintf(out->bus_id, sizeof out->bus_id, "%08X:%02X:00.0", domain, bus & 0xff);
}

static Return handle_of(const char *symbol, int gpu, Device *out) {
    Return rc = sim_enter(symbol, gpu);
    if (!rc) *out = &devices[gpu];
    return rc;
}

/* The first GPU whose text is `wanted`. */
static Return handle_by_text(const char *symbol, void (*text_of)(int, char[96]), const char *wanted, Device *out) {
    char text[96];
    sim_reload();
    NEED(sim_is_initialized(), UNINITIALIZED);
    for (int gpu = 0; gpu < sim_gpu_count(); gpu++) {
        text_of(gpu, text);
        if (!strcmp(text, wanted)) return handle_of(symbol, gpu, out);
    }
    return NOT_FOUND;
}

API nvmlDeviceGetCount_v2(u32 *out) {
    ENTER_SYSTEM();
    *out = (u32)sim_gpu_count();
    return SUCCESS;
}
API nvmlDeviceGetCount(u32 *out) {
    ENTER_SYSTEM();
    *out = (u32)sim_gpu_count();
    return SUCCESS;
}
API nvmlDeviceGetHandleByIndex_v2(u32 index, Device *out) {
    sim_reload();
    NEED(sim_is_initialized(), UNINITIALIZED);
    NEED(index < (u32)sim_gpu_count(), INVALID_ARGUMENT);
    return handle_of(__func__, (int)index, out);
}
API nvmlDeviceGetHandleByUUID(const char *uuid, Device *out) { return handle_by_text(__func__, uuid_of, uuid, out); }
API nvmlDeviceGetHandleBySerial(const char *serial, Device *out) {
    return handle_by_text(__func__, serial_of, serial, out);
}
API nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, Device *out) {
    u32 domain, bus, device, function = 0;
    sim_reload();
    NEED(sim_is_initialized(), UNINITIALIZED);
    NEED(sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) >= 3, INVALID_ARGUMENT);
    for (int gpu = 0; gpu < sim_gpu_count(); gpu++)
        if (!domain && !device && bus_of(gpu) == bus) return handle_of(__func__, gpu, out);
    return NOT_FOUND;
}
API nvmlDeviceGetPciInfo_v3(Device handle, PciInfo *out) {
    ENTER_DEVICE(handle);
    NEED(out, INVALID_ARGUMENT);
    fill_pci(out, 0, bus_of(gpu), 0x233010DE, 0x16C110DE);
    return SUCCESS;
}
API nvmlDeviceGetIndex(Device handle, u32 *out) {
    ENTER_DEVICE(handle);
    *out = (u32)gpu;
    return SUCCESS;
}
API nvmlDeviceGetUUID(Device handle, char *out, u32 room) {
    char uuid[96];
    ENTER_DEVICE(handle);
    uuid_of(gpu, uuid);
    return copy(out, room, uuid);
}
API nvmlDeviceGetSerial(Device handle, char *out, u32 room) {
    char serial[96];
    ENTER_DEVICE(handle);
    serial_of(gpu, serial);
    return copy(out, room, serial);
}

#define GET_TEXT(symbol, key, otherwise)                      \
    API symbol(Device handle, char *out, u32 room) {          \
        ENTER_DEVICE(handle);                                 \
        return text_value(gpu, out, room, key, otherwise);    \
    }
GET_TEXT(nvmlDeviceGetName, "name", "NVIDIA H100 80GB HBM3")
GET_TEXT(nvmlDeviceGetBoardPartNumber, "part", "692-2G520-0200-000")
GET_TEXT(nvmlDeviceGetVbiosVersion, "vbios", "96.00.99.00.01")
GET_TEXT(nvmlDeviceGetInforomImageVersion, "inforom", "G520.0200.00.05")

API nvmlDeviceGetGspFirmwareVersion(Device handle, char *out) {
    ENTER_DEVICE(handle);
    return text_value(gpu, out, 64, "gsp", "580.105.08");
}
API nvmlDeviceGetGspFirmwareMode(Device handle, u32 *enabled, u32 *by_default) {
    ENTER_DEVICE(handle);
    *enabled = number(gpu, 1, "gsp_on");
    *by_default = 1;
    return SUCCESS;
}
API nvmlDeviceValidateInforom(Device handle) { /* corrupt: rc.nvmlDeviceValidateInforom = 14 */
    ENTER_DEVICE(handle);
    return SUCCESS;
}

/* ---- one number out: symbol, key, default ------------------------------------------------------------ */

#define GET_NUMBER(symbol, type, key, otherwise)              \
    API symbol(Device handle, type *out) {                    \
        ENTER_DEVICE(handle);                                 \
        *out = (type)sim_number(gpu, (u64)(otherwise), key);  \
        return SUCCESS;                                       \
    }
static const u32 module_ids[8] = {7, 5, 6, 8, 1, 3, 4, 2};
GET_NUMBER(nvmlDeviceGetModuleId, u32, "module", module_ids[gpu & 7])
GET_NUMBER(nvmlDeviceGetMinorNumber, u32, "minor", gpu)
GET_NUMBER(nvmlDeviceGetNumaNodeId, u32, "numa", gpu / 4)
GET_NUMBER(nvmlDeviceGetPersistenceMode, u32, "persistence", 1)
GET_NUMBER(nvmlDeviceGetComputeMode, u32, "compute_mode", 0)
GET_NUMBER(nvmlDeviceGetPerformanceState, u32, "pstate", 0)
GET_NUMBER(nvmlDeviceGetAccountingMode, u32, "accounting", 0)
GET_NUMBER(nvmlDeviceGetPowerUsage, u32, "power_mw", 68570)
GET_NUMBER(nvmlDeviceGetEnforcedPowerLimit, u32, "power_limit_mw", 700000)
GET_NUMBER(nvmlDeviceGetPowerManagementLimit, u32, "power_limit_mw", 700000)
GET_NUMBER(nvmlDeviceGetPowerManagementDefaultLimit, u32, "power_default_mw", 700000)
GET_NUMBER(nvmlDeviceGetTotalEnergyConsumption, u64, "energy_mj", 600000)
GET_NUMBER(nvmlDeviceGetCurrPcieLinkGeneration, u32, "pcie_gen", 5)
GET_NUMBER(nvmlDeviceGetCurrPcieLinkWidth, u32, "pcie_width", 16)
GET_NUMBER(nvmlDeviceGetMaxPcieLinkGeneration, u32, "pcie_max_gen", 5)
GET_NUMBER(nvmlDeviceGetMaxPcieLinkWidth, u32, "pcie_max_width", 16)
GET_NUMBER(nvmlDeviceGetGpuMaxPcieLinkGeneration, u32, "pcie_gpu_max_gen", 5)
GET_NUMBER(nvmlDeviceGetPcieReplayCounter, u32, "pcie_replay", 150)
GET_NUMBER(nvmlDeviceGetCurrentClocksEventReasons, u64, "clocks_event", 1)
GET_NUMBER(nvmlDeviceGetCurrentClocksThrottleReasons, u64, "clocks_event", 1)
GET_NUMBER(nvmlDeviceGetSupportedClocksEventReasons, u64, "clocks_supported", 0x1ff)
GET_NUMBER(nvmlDeviceGetSupportedEventTypes, u64, "events", 0x1f1b)

/* ---- temperature, clocks, use, memory ---------------------------------------------------------------- */

#define TEMPERATURE_C(gpu) number(gpu, 29, "temp")

API nvmlDeviceGetTemperature(Device handle, u32 sensor, u32 *out) {
    ENTER_DEVICE(handle);
    NEED(sensor == 0, INVALID_ARGUMENT);
    *out = TEMPERATURE_C(gpu);
    return SUCCESS;
}
API nvmlDeviceGetTemperatureV(Device handle, Pair *out) {
    ENTER_DEVICE(handle);
    NEED(out->version == TEMPERATURE_V1, VERSION_MISMATCH);
    out->second = TEMPERATURE_C(gpu);
    return SUCCESS;
}
API nvmlDeviceGetMarginTemperature(Device handle, Pair *out) {
    ENTER_DEVICE(handle);
    NEED(out->version == MARGIN_V1, VERSION_MISMATCH);
    out->first = number(gpu, 87 - TEMPERATURE_C(gpu), "margin");
    return SUCCESS;
}
API nvmlDeviceGetTemperatureThreshold(Device handle, u32 kind, u32 *out) {
    static const u32 celsius[4] = {95, 89, 95, 87}; /* shutdown, slowdown, memory, GPU maximum */
    ENTER_DEVICE(handle);
    NEED(kind < 4, NOT_SUPPORTED);
    *out = celsius[kind];
    return SUCCESS;
}
API nvmlDeviceGetClockInfo(Device handle, u32 kind, u32 *out) {
    static const char *const keys[4] = {"clock_graphics", "clock_sm", "clock_mem", "clock_video"};
    static const u32 idle_mhz[4] = {345, 345, 2619, 765};
    ENTER_DEVICE(handle);
    NEED(kind < 4, INVALID_ARGUMENT);
    *out = number(gpu, idle_mhz[kind], keys[kind]);
    return SUCCESS;
}
API nvmlDeviceGetMaxClockInfo(Device handle, u32 kind, u32 *out) {
    static const u32 max_mhz[4] = {1980, 1980, 2619, 1545};
    ENTER_DEVICE(handle);
    NEED(kind < 4, INVALID_ARGUMENT);
    *out = max_mhz[kind];
    return SUCCESS;
}
/* 0 is the power cap: 7,016 s of it are healthy. */
static u64 violation_ns(int gpu, u32 kind) {
    return sim_number(gpu, kind ? 0 : 7015662857000ull, "violation.%u", kind);
}
API nvmlDeviceGetViolationStatus(Device handle, u32 kind, Violation *out) {
    ENTER_DEVICE(handle);
    *out = (Violation){sim_now_us(CLOCK_REALTIME), violation_ns(gpu, kind)};
    return SUCCESS;
}
API nvmlDeviceGetUtilizationRates(Device handle, u32 out[2]) {
    ENTER_DEVICE(handle);
    out[0] = number(gpu, 0, "util");
    out[1] = number(gpu, 0, "util_mem");
    return SUCCESS;
}

#define MIB (1024ull * 1024)
#define TOTAL_BYTES(gpu) sim_number(gpu, 81559 * MIB, "mem_total")
#define USED_BYTES(gpu) sim_number(gpu, 0, "mem_used")
#define RESERVED_BYTES (479 * MIB)

API nvmlDeviceGetMemoryInfo(Device handle, Memory *out) {
    ENTER_DEVICE(handle);
    *out = (Memory){.total = TOTAL_BYTES(gpu), .used = USED_BYTES(gpu) + RESERVED_BYTES};
    out->free = out->total - out->used;
    return SUCCESS;
}
API nvmlDeviceGetMemoryInfo_v2(Device handle, MemoryV2 *out) {
    ENTER_DEVICE(handle);
    NEED(out->version == MEMORY_V2, VERSION_MISMATCH);
    *out = (MemoryV2){MEMORY_V2, .total = TOTAL_BYTES(gpu), .reserved = RESERVED_BYTES, .used = USED_BYTES(gpu)};
    out->free = out->total - out->reserved - out->used;
    return SUCCESS;
}
API nvmlDeviceGetMigMode(Device handle, u32 *current, u32 *pending) {
    ENTER_DEVICE(handle);
    *current = number(gpu, 0, "mig");
    *pending = number(gpu, *current, "mig_pending");
    return SUCCESS;
}

/* ---- ECC, retired pages, remapped rows ---------------------------------------------------------------- */

enum { CORRECTED, UNCORRECTED, VOLATILE = 0, AGGREGATE = 1, DRAM = 2, SRAM = 7 };

/* key: ecc.{corr,uncorr}.{vol,agg}.{dram,sram}; totals are sums of these */
static u64 ecc(int gpu, u32 kind, u32 lifetime, u32 place) {
    return sim_number(gpu, 0, "ecc.%s.%s.%s", kind == UNCORRECTED ? "uncorr" : "corr",
                      lifetime == AGGREGATE ? "agg" : "vol", place == DRAM ? "dram" : "sram");
}
static u64 ecc_total(int gpu, u32 kind, u32 lifetime) {
    return ecc(gpu, kind, lifetime, DRAM) + ecc(gpu, kind, lifetime, SRAM);
}

API nvmlDeviceGetEccMode(Device handle, u32 *current, u32 *pending) {
    ENTER_DEVICE(handle);
    *current = number(gpu, 1, "ecc");
    *pending = number(gpu, *current, "ecc_pending");
    return SUCCESS;
}
API nvmlDeviceGetTotalEccErrors(Device handle, u32 kind, u32 lifetime, u64 *out) {
    ENTER_DEVICE(handle);
    *out = ecc_total(gpu, kind, lifetime);
    return SUCCESS;
}
API nvmlDeviceGetMemoryErrorCounter(Device handle, u32 kind, u32 lifetime, u32 place, u64 *out) {
    ENTER_DEVICE(handle);
    NEED(place == DRAM || place == SRAM, NOT_SUPPORTED);
    *out = ecc(gpu, kind, lifetime, place);
    return SUCCESS;
}
API nvmlDeviceGetSramEccErrorStatus(Device handle, SramStatus *out) {
    ENTER_DEVICE(handle);
    NEED(out->version == SRAM_V1, VERSION_MISMATCH);
    *out = (SramStatus){
        .version = SRAM_V1,
        .aggregate_uncorrected = ecc(gpu, UNCORRECTED, AGGREGATE, SRAM),
        .aggregate_corrected = ecc(gpu, CORRECTED, AGGREGATE, SRAM),
        .volatile_uncorrected = ecc(gpu, UNCORRECTED, VOLATILE, SRAM),
        .volatile_corrected = ecc(gpu, CORRECTED, VOLATILE, SRAM),
        .threshold_exceeded = number(gpu, 0, "sram_threshold"),
    };
    return SUCCESS;
}

/* Hopper remaps rows and retires no pages. */
API nvmlDeviceGetRetiredPages(Device handle, u32 cause, u32 *count, u64 *addresses) {
    ENTER_DEVICE(handle);
    (void)cause, (void)count, (void)addresses;
    return NOT_SUPPORTED;
}
API nvmlDeviceGetRetiredPages_v2(Device handle, u32 cause, u32 *count, u64 *addresses, u64 *times) {
    ENTER_DEVICE(handle);
    (void)cause, (void)count, (void)addresses, (void)times;
    return NOT_SUPPORTED;
}
API nvmlDeviceGetRetiredPagesPendingStatus(Device handle, u32 *out) {
    ENTER_DEVICE(handle);
    (void)out;
    return NOT_SUPPORTED;
}
API nvmlDeviceGetRemappedRows(Device handle, u32 *corrected, u32 *uncorrected, u32 *pending, u32 *failed) {
    ENTER_DEVICE(handle);
    *corrected = number(gpu, 0, "remap.corr");
    *uncorrected = number(gpu, 0, "remap.unc");
    *pending = number(gpu, 0, "remap.pending");
    *failed = number(gpu, 0, "remap.failure");
    return SUCCESS;
}
API nvmlDeviceGetRowRemapperHistogram(Device handle, RowHistogram *out) {
    ENTER_DEVICE(handle);
    *out = (RowHistogram){number(gpu, 2560, "histo.max"), number(gpu, 0, "histo.high"),
                          number(gpu, 0, "histo.partial"), number(gpu, 0, "histo.low"), number(gpu, 0, "histo.none")};
    return SUCCESS;
}
API nvmlDeviceGetRepairStatus(Device handle, Pair *out) { /* channel repair, TPC repair pending */
    ENTER_DEVICE(handle);
    NEED(out->version == REPAIR_V1, VERSION_MISMATCH);
    out->first = number(gpu, 0, "repair.channel");
    out->second = number(gpu, 0, "repair.tpc");
    return SUCCESS;
}

/* ---- NVLink, fabric, topology ------------------------------------------------------------------------ */

#define LINKS(gpu) number(gpu, 18, "links")

/* One number of a link: symbol, key, default. */
#define GET_LINK(symbol, key, otherwise)                       \
    API symbol(Device handle, u32 link, u32 *out) {            \
        ENTER_DEVICE(handle);                                  \
        NEED(link < LINKS(gpu), INVALID_ARGUMENT);             \
        *out = (u32)sim_link(gpu, link, otherwise, key);       \
        return SUCCESS;                                        \
    }
GET_LINK(nvmlDeviceGetNvLinkState, "state", 1)
GET_LINK(nvmlDeviceGetNvLinkVersion, "version", 4)
GET_LINK(nvmlDeviceGetNvLinkRemoteDeviceType, "remote_type", 2) /* 2: a switch */

API nvmlDeviceGetNvLinkCapability(Device handle, u32 link, u32 capability, u32 *out) {
    ENTER_DEVICE(handle);
    (void)capability;
    NEED(link < LINKS(gpu), INVALID_ARGUMENT);
    *out = 1;
    return SUCCESS;
}
API nvmlDeviceGetNvLinkErrorCounter(Device handle, u32 link, u32 counter, u64 *out) {
    static const char *const keys[5] = {"replay", "recovery", "crc", "crc_data", "ecc_data"};
    ENTER_DEVICE(handle);
    NEED(link < LINKS(gpu) && counter < 5, INVALID_ARGUMENT);
    *out = sim_link(gpu, link, 0, keys[counter]);
    return SUCCESS;
}
API nvmlDeviceGetNvLinkRemotePciInfo_v2(Device handle, u32 link, PciInfo *out) {
    ENTER_DEVICE(handle);
    NEED(link < LINKS(gpu), INVALID_ARGUMENT);
    NEED(sim_link(gpu, link, 1, "state"), NOT_SUPPORTED);
    fill_pci(out, 0, (u32)sim_link(gpu, link, 5 + link % 4, "remote"), 0x22a310de, 0); /* one of four NVSwitches */
    return SUCCESS;
}

#define FABRIC_STATE(gpu) (unsigned char)number(gpu, 3, "fabric.state") /* 3: completed */

API nvmlDeviceGetGpuFabricInfo(Device handle, FabricV1 *out) {
    ENTER_DEVICE(handle);
    *out = (FabricV1){.status = number(gpu, 0, "fabric.status"), .clique = number(gpu, 0, "fabric.clique"),
                      .state = FABRIC_STATE(gpu)};
    return SUCCESS;
}
API nvmlDeviceGetGpuFabricInfoV(Device handle, FabricV3 *out) {
    ENTER_DEVICE(handle);
    u32 version = out->version;
    NEED(version == FABRIC_V2 || version == FABRIC_V3, VERSION_MISMATCH);
    NEED(version >> 24 <= number(gpu, 3, "fabric.version"), VERSION_MISMATCH); /* 2: a driver before R575 */
    memset(out->uuid, 0, sizeof out->uuid);
    out->status = number(gpu, 0, "fabric.status");
    out->clique = number(gpu, 0, "fabric.clique");
    out->state = FABRIC_STATE(gpu);
    out->health = number(gpu, 0, "fabric.health");
    if (version == FABRIC_V3) out->summary = (unsigned char)number(gpu, 0, "fabric.summary");
    return SUCCESS;
}
API nvmlDeviceGetTopologyCommonAncestor(Device handle, Device other, u32 *out) {
    ENTER_DEVICE(handle);
    int peer = index_of(other);
    NEED(peer >= 0, INVALID_ARGUMENT);
    *out = gpu == peer ? 0 : gpu / 4 == peer / 4 ? 40 : 50; /* itself, same socket, across sockets */
    return SUCCESS;
}
API nvmlDeviceGetP2PStatus(Device handle, Device other, u32 kind, u32 *out) {
    ENTER_DEVICE(handle);
    (void)kind;
    NEED(index_of(other) >= 0, INVALID_ARGUMENT);
    *out = number(gpu, 0, "p2p");
    return SUCCESS;
}

/* ---- field values: only ids whose meaning never changed between releases of nvidia-ml-py -------------- */

enum { UINT = 1, ULONGLONG = 3, SIGNED_LONG_LONG = 4, SIGNED_INT = 5 }; /* nvmlValueType_t */

static Return field_value(int gpu, u32 links, int changed, FieldValue *field) {
    char given[64];
    u32 link = field->scope;
    u64 value;
    *field = (FieldValue){.field = field->field, .scope = link, .latency_us = 1, .value_type = UINT};
    field->timestamp_us = (long long)sim_now_us(CLOCK_REALTIME);
    if (changed && sim_text(gpu, given, sizeof given, "fieldrc.%u", field->field)) return atoi(given);
    if (changed && sim_text(gpu, given, sizeof given, "field.%u", field->field)) {
        field->value_type = given[0] == '-' ? SIGNED_LONG_LONG : ULONGLONG;
        field->value = (u64)strtoll(given, NULL, 0);
        return SUCCESS;
    }
    if (field->field >= 161 && field->field <= 168 && link >= links) return INVALID_ARGUMENT;
    switch (field->field) {
#define FIELD(id, type, expression) \
    case id:                        \
        value = (expression);       \
        field->value_type = type;   \
        break;
        FIELD(1, UINT, number(gpu, 1, "ecc"))
        FIELD(2, UINT, number(gpu, number(gpu, 1, "ecc"), "ecc_pending"))
        FIELD(3, ULONGLONG, ecc_total(gpu, CORRECTED, VOLATILE))
        FIELD(4, ULONGLONG, ecc_total(gpu, UNCORRECTED, VOLATILE))
        FIELD(5, ULONGLONG, ecc_total(gpu, CORRECTED, AGGREGATE))
        FIELD(6, ULONGLONG, ecc_total(gpu, UNCORRECTED, AGGREGATE))
        /* how long each policy held the clocks down, in ns (nvmlPerfPolicyType_t is the id less 74) */
        FIELD(74, ULONGLONG, violation_ns(gpu, 0))
        FIELD(75, ULONGLONG, violation_ns(gpu, 1))
        FIELD(76, ULONGLONG, violation_ns(gpu, 2))
        FIELD(77, ULONGLONG, violation_ns(gpu, 3))
        FIELD(78, ULONGLONG, violation_ns(gpu, 4))
        FIELD(79, ULONGLONG, violation_ns(gpu, 5))
        /* the same by clock event reason: slowdown by heat, software's and the hardware's, power brake */
        FIELD(269, ULONGLONG, sim_number(gpu, 0, "held.sw_heat"))
        FIELD(270, ULONGLONG, sim_number(gpu, 0, "held.hw_heat"))
        FIELD(271, ULONGLONG, sim_number(gpu, 0, "held.power_brake"))
        FIELD(82, UINT, number(gpu, 37, "mem_temp"))
        FIELD(83, ULONGLONG, sim_number(gpu, 600000, "energy_mj"))
        FIELD(90, UINT, 26562) /* NVLink speed, MB/s */
        FIELD(91, UINT, LINKS(gpu))
        FIELD(94, UINT, number(gpu, 150, "pcie_replay"))
        FIELD(95, UINT, number(gpu, 0, "pcie_replay_rollover"))
        FIELD(142, UINT, number(gpu, 0, "remap.corr"))
        FIELD(143, UINT, number(gpu, 0, "remap.unc"))
        FIELD(144, UINT, number(gpu, 0, "remap.pending"))
        FIELD(145, UINT, number(gpu, 0, "remap.failure"))
        FIELD(147, UINT, LINKS(gpu))
        FIELD(161, ULONGLONG, sim_link(gpu, link, 0, "replay"))
        FIELD(162, ULONGLONG, sim_link(gpu, link, 0, "recovery"))
        FIELD(163, ULONGLONG, sim_link(gpu, link, 0, "crc"))
        FIELD(164, UINT, 26562)
        FIELD(165, UINT, sim_link(gpu, link, 1, "state"))
        FIELD(166, UINT, 4)
        FIELD(185, UINT, number(gpu, 68570, "power_mw"))
        FIELD(186, UINT, number(gpu, 68570, "power_mw"))
        FIELD(193, SIGNED_INT, (u64)-8ll) /* T.Limit: shutdown, slowdown, memory, GPU maximum */
        FIELD(194, SIGNED_INT, (u64)-2ll)
        FIELD(195, SIGNED_INT, 0)
        FIELD(196, SIGNED_INT, 0)
        FIELD(230, UINT, number(gpu, 0, "recovery_action"))
    default:
        if (field->field < 173 || field->field > 183) return NOT_SUPPORTED;
        value = 0; /* PCIe error counters */
    }
    field->value = value;
    return SUCCESS;
}

API nvmlDeviceGetFieldValues(Device handle, int count, FieldValue *fields) {
    ENTER_DEVICE(handle);
    NEED(count >= 1 && fields, INVALID_ARGUMENT);
    u32 links = LINKS(gpu);
    int changed = sim_any_field();
    for (int i = 0; i < count; i++) fields[i].rc = field_value(gpu, links, changed, &fields[i]);
    return SUCCESS;
}

/* ---- processes --------------------------------------------------------------------------------------- */

static Return list_processes(int gpu, const char *key, u32 *count, ProcessInfo *out) {
    char list[1024] = "", *rest = NULL, *bytes;
    u32 found = 0, room = *count;
    sim_text(gpu, list, sizeof list, "%s", key);
    for (char *word = strtok_r(list, " ,", &rest); word; word = strtok_r(NULL, " ,", &rest), found++) {
        if (!out || found >= room) continue;
        out[found] = (ProcessInfo){.pid = (u32)strtoul(word, &bytes, 10), .gpu_instance = ~0u, .compute_instance = ~0u};
        if (*bytes == ':') out[found].used_bytes = strtoull(bytes + 1, NULL, 10);
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define GET_PROCESSES(symbol, key)                                    \
    API symbol(Device handle, u32 *count, ProcessInfo *out) {         \
        ENTER_DEVICE(handle);                                         \
        return list_processes(gpu, key, count, out);                  \
    }
GET_PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, "proc")
GET_PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, "gproc")
GET_PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, "mpsproc")

/* ---- events ------------------------------------------------------------------------------------------ */

typedef struct {
    u64 masks[MAX_GPUS]; /* types registered for each GPU */
    long after[MAX_GPUS]; /* seq of the last event delivered, or of the newest one at registration */
} EventSet;

API nvmlEventSetCreate(EventSet **out) {
    ENTER_SYSTEM();
    NEED(out, INVALID_ARGUMENT);
    *out = calloc(1, sizeof **out);
    return SUCCESS;
}
API nvmlEventSetFree(EventSet *set) {
    ENTER_SYSTEM();
    free(set);
    return SUCCESS;
}
API nvmlDeviceRegisterEvents(Device handle, u64 types, EventSet *set) {
    ENTER_DEVICE(handle);
    NEED(set, INVALID_ARGUMENT);
    NEED(!(types & ~sim_number(gpu, 0x1f1b, "events")), NOT_SUPPORTED);
    if (!set->masks[gpu]) set->after[gpu] = sim_newest_event();
    set->masks[gpu] |= types;
    return SUCCESS;
}
API nvmlEventSetWait_v2(EventSet *set, EventData *out, u32 timeout_ms) {
    SimEvent event;
    ENTER_SYSTEM();
    NEED(set && out, INVALID_ARGUMENT);
    for (u64 end_us = sim_now_us(CLOCK_MONOTONIC) + timeout_ms * 1000ull;; sim_sleep_ms(2), sim_reload()) {
        if (sim_next_event(set->masks, set->after, &event)) {
            set->after[event.gpu] = event.seq;
            *out = (EventData){&devices[event.gpu], event.type, event.data, ~0u, ~0u};
            return SUCCESS;
        }
        for (int gpu = 0; gpu < MAX_GPUS; gpu++) /* what a real driver answers after Xid 79 */
            if (set->masks[gpu] && sim_number(gpu, 0, "lost")) return GPU_IS_LOST;
        if (sim_now_us(CLOCK_MONOTONIC) >= end_us) return TIMEOUT;
    }
}
