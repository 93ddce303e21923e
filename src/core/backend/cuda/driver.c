/* driver.c - see driver.h. */
#include "backend/cuda/driver.h"

#include <stdatomic.h>

#include "base/text.h"

struct lvn_cuda_driver lvn_cuda;

static const char *version(void)
{
    static char text[32];
    int v = 0;
    lvn_cuda.driver_version(&v); /* cannot fail with a valid pointer */
    snprintf(text, sizeof text, "CUDA %d.%d", v / 1000, v % 1000 / 10);
    return text;
}

struct lvn_library lvn_library_cuda = {
    .name = "libcuda",
    .files = {"libcuda.so.1"},
    .folders = (const char *const[]){"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib", NULL}, /* containers, WSL */
    .use = "trainer.accelerator cuda",
    .hint = "it is part of the driver of an NVIDIA GPU; in a container it is available with --gpus all (docker) "
            "or --nv (apptainer)",
    .symbols = (const char *const[]){LVN_CUDA_FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
    .functions = &lvn_cuda,
    .version = version};

/* Sticky errors: the process can no longer use the device; a restart may succeed. */
static bool is_lost(int result)
{
    static const int lost[] = {LVN_CUDA_ECC,
                               LVN_CUDA_UNAVAILABLE,
                               220 /* NVLink */,
                               226 /* contained error */,
                               700 /* address */,
                               702 /* timeout */,
                               710 /* assertion */,
                               714 /* stack */,
                               715 /* instruction */,
                               716 /* alignment */,
                               717,
                               718,
                               719 /* launch failed */,
                               721,
                               999 /* not known */};
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++)
        if (result == lost[i]) return true;
    return false;
}

/* ", 12 MiB of 80 GiB are free"; "": not known. */
static void free_text(char *text, size_t capacity)
{
    size_t available, total;
    char have[LVN_NUMBER_TEXT], all[LVN_NUMBER_TEXT];
    *text = '\0';
    if (lvn_cuda.memory_info(&available, &total)) return;
    snprintf(text, capacity, ", %s of %s are free", lvn_bytes_text((int64_t)available, have),
             lvn_bytes_text((int64_t)total, all));
}

enum lvn_status lvn_cuda_answer(int result, const char *action, int number)
{
    const char *name = NULL, *text = NULL;
    char where[32] = "", room[80] = "";
    if (result == 0) return LVN_OK;
    if (lvn_cuda.error_name(result, &name) || !name) name = "an error without a name";
    if (lvn_cuda.error_text(result, &text) || !text) text = "not explained";
    if (number >= 0) snprintf(where, sizeof where, " on device %d", number);
    if (result == LVN_CUDA_OUT_OF_MEMORY) free_text(room, sizeof room);
    LVN_CHECK(result != LVN_CUDA_OUT_OF_MEMORY, MEMORY,
              "%s%s: the device is out of memory (%s%s); choose a smaller trainer.micro_batch_size, "
              "model.block_size or model, or end other programs on it (nvidia-smi)",
              action, where, name, room);
    LVN_CHECK(
        result != LVN_CUDA_UNAVAILABLE, COMM,
        "%s%s: another process uses the device, or its compute mode forbids processes (%s); end the other process "
        "(nvidia-smi), or set the default mode (nvidia-smi -c 0)",
        action, where, name);
    LVN_CHECK(!is_lost(result), COMM,
              "%s%s: the device was lost: %s (%d, %s); a training can be resumed from its last checkpoint. If a "
              "restart does not help, "
              "search the kernel's log for 'Xid'",
              action, where, name, result, text);
    LVN_FAIL(UNSUPPORTED, "%s%s: the CUDA driver returned %s (%d, %s)", action, where, name, result, text);
}

bool lvn_cuda_driver_supports(int major)
{
    int v = 0;
    return lvn_library_cuda.state != LVN_LIBRARY_LOADED || lvn_cuda.driver_version(&v) || major <= v / 1000;
}

static int capability_of(int handle)
{
    int major = 0, minor = 0;
    /* errors are reported when the device is opened */
    (void)lvn_cuda.device_attribute(&major, LVN_CUDA_CAPABILITY_MAJOR, handle);
    (void)lvn_cuda.device_attribute(&minor, LVN_CUDA_CAPABILITY_MINOR, handle);
    return major * 10 + minor;
}

static _Atomic int in_use; /* the compute capability of the device in use; 0: none is open yet */

void lvn_cuda_capability_set(int capability)
{
    int none = 0;
    atomic_compare_exchange_strong(&in_use, &none, capability);
}

int lvn_cuda_capability(void)
{
    int n = 0, lowest = 0;
    if (in_use) return in_use;
    if (lvn_library_cuda.state != LVN_LIBRARY_LOADED || lvn_cuda.device_count(&n)) return 0;
    for (int k = 0, handle; k < n; k++) {
        const int capability = lvn_cuda.device_get(&handle, k) ? 0 : capability_of(handle);
        if (capability && (!lowest || capability < lowest)) lowest = capability;
    }
    return lowest;
}

/* The usual remedy if the driver does not start. */
static const char *cure_of(int result)
{
    switch (result) {
    case LVN_CUDA_STUB:
        return "this file is a toolkit's stub; remove its folder from LD_LIBRARY_PATH";
    case LVN_CUDA_SYSTEM_NOT_READY:
        return "GPUs connected by NVSwitch require nvidia-fabricmanager of the driver's version";
    case LVN_CUDA_SYSTEM_DRIVER_MISMATCH:
    case LVN_CUDA_COMPAT_NOT_SUPPORTED:
        return "this file and the kernel module belong to different drivers; restart the machine after an update, or "
               "remove a folder with another libcuda.so.1 (compat) from LD_LIBRARY_PATH";
    default:
        return "check nvidia-smi and /dev/nvidia-uvm (created by nvidia-modprobe -u -c 0)";
    }
}

static enum lvn_status start(void)
{
    const char *name = NULL;
    LVN_TRY(lvn_library_open(&lvn_library_cuda));
    int result = lvn_cuda.init(0);
    if (result == 0 || result == LVN_CUDA_NO_DEVICE) return LVN_OK;
    if (lvn_cuda.error_name(result, &name) || !name) name = "an error without a name";
    LVN_FAIL(UNSUPPORTED, "the CUDA driver (%s) does not start: %s (%d): %s",
             lvn_library_path(*(void **)lvn_library_cuda.functions), name, result, cure_of(result));
}

enum lvn_status lvn_cuda_devices(int *n)
{
    *n = 0;
    LVN_TRY(start());
    int result = lvn_cuda.device_count(n);
    if (result != LVN_CUDA_NO_DEVICE) LVN_CUDA_TRY(result, "counting devices", -1);
    LVN_CHECK(*n > 0, UNSUPPORTED,
              "trainer.accelerator cuda: the driver is installed but finds no device; check nvidia-smi and "
              "CUDA_VISIBLE_DEVICES");
    return LVN_OK;
}

enum lvn_status lvn_cuda_device_facts(struct lvn_cuda_facts *f, int number)
{
    size_t bytes = 0;
    int major = 0, minor = 0;
    *f = (struct lvn_cuda_facts){.number = number};
    LVN_CUDA_TRY(lvn_cuda.driver_version(&f->driver), "querying the driver's version", number);
    LVN_CUDA_TRY(lvn_cuda.device_get(&f->handle, number), "querying a device", number);
    LVN_CUDA_TRY(lvn_cuda.device_name(f->name, sizeof f->name, f->handle), "querying a device's name", number);
    LVN_CUDA_TRY(lvn_cuda.device_id(f->id, f->handle), "querying a device's UUID", number);
    LVN_CUDA_TRY(lvn_cuda.device_bus(f->card, sizeof f->card, f->handle), "querying a device's PCI bus id", number);
    LVN_CUDA_TRY(lvn_cuda.device_memory(&bytes, f->handle), "querying the size of memory", number);
    LVN_CUDA_TRY(lvn_cuda.device_attribute(&major, LVN_CUDA_CAPABILITY_MAJOR, f->handle),
                 "querying the compute capability", number);
    LVN_CUDA_TRY(lvn_cuda.device_attribute(&minor, LVN_CUDA_CAPABILITY_MINOR, f->handle),
                 "querying the compute capability", number);
    f->capability = major * 10 + minor;
    f->bytes = (int64_t)bytes;
    return LVN_OK;
}
