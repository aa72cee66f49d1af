/* What the vendor's cudaVDPAU.h needs of VDPAU: integer handles and the look-up function (libvdpau's interface). */
#ifndef GPUPOOL_STUB_VDPAU_H
#define GPUPOOL_STUB_VDPAU_H
#include <stdint.h>
typedef uint32_t VdpDevice;
typedef uint32_t VdpFuncId;
typedef uint32_t VdpVideoSurface;
typedef uint32_t VdpOutputSurface;
typedef int VdpStatus;
typedef VdpStatus VdpGetProcAddress(VdpDevice device, VdpFuncId function_id, void **function_pointer);
#endif
