/* What the vendor's cudaEGL.h needs of EGL's extensions (EGL_KHR_image_base, EGL_KHR_stream, EGL_KHR_fence_sync). */
#ifndef GPUPOOL_STUB_EGLEXT_H
#define GPUPOOL_STUB_EGLEXT_H
#include <EGL/egl.h>
typedef void *EGLImageKHR;
typedef void *EGLStreamKHR;
typedef void *EGLSyncKHR;
#endif
