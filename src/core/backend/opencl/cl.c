/* cl.c - see cl.h: OpenCL's library, opened at run time, and its error codes. */
#include "backend/opencl/cl.h"

struct lvn_cl lvn_cl;

static const char *version(void)
{
    return "1.2 or later"; /* the ICD loader has no function for its version */
}

struct lvn_library lvn_library_opencl = {
    .name = "libOpenCL",
    .files = {"libOpenCL.so.1", "libOpenCL.so"},
    .use = "trainer.accelerator opencl",
    .hint = "install the driver of the device (Intel: intel-opencl-icd) and ocl-icd-libopencl1, or set "
            "trainer.accelerator to cpu",
    .symbols = (const char *const[]){LVN_CL_FUNCTIONS(LVN_LIBRARY_SYMBOL) NULL},
    .functions = &lvn_cl,
    .version = version};

const char *lvn_cl_error(int code)
{
    switch (code) {
    case -1:
        return "no device (-1)";
    case -2:
        return "the device is not available (-2)";
    case -4:
        return "no memory for a buffer on the device (-4)";
    case -5:
        return "out of resources on the device (-5)";
    case -6:
        return "out of memory on the host (-6)";
    case -11:
        return "the program does not compile (-11)";
    case -36:
        return "the queue is lost (-36)";
    case -46:
        return "no kernel of this name (-46)";
    case -48:
        return "an invalid kernel (-48)";
    case -49:
        return "a wrong argument number (-49)";
    case -51:
        return "an argument of the wrong size (-51)";
    case -52:
        return "an argument that was not set (-52)";
    case -54:
        return "a group size that the device does not support (-54)";
    case -61:
        return "a buffer size that the device does not support (-61)";
    case -1001:
        return "no driver is installed (-1001)";
    default: {
        static _Thread_local char text[32];
        snprintf(text, sizeof text, "error %d", code);
        return text;
    }
    }
}

static bool is_memory(int code)
{
    return code == -4 || code == -5 || code == -61;
}

enum lvn_status lvn_cl_status(int code)
{
    return is_memory(code) || code == -6 ? LVN_MEMORY : LVN_IO;
}

const char *lvn_cl_cure(int code)
{
    if (is_memory(code))
        return "; choose a smaller trainer.micro_batch_size, or end other programs that use the device";
    if (code == -2 || code == -36) return "; a training can be resumed from its last checkpoint";
    return "";
}
