/* What the vendor's cudaEGL.h needs of EGL: integers and opaque handles (EGL 1.5 specification, section 2.1). */
#ifndef GPUPOOL_STUB_EGL_H
#define GPUPOOL_STUB_EGL_H
#include <stdint.h>
typedef int32_t EGLint;
typedef unsigned int EGLBoolean;
typedef void *EGLDisplay;
#endif
