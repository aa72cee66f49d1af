/* What the vendor's cudaGL.h needs of OpenGL: two integer types (OpenGL 4.6 specification, table 2.2). */
#ifndef GPUPOOL_STUB_GL_H
#define GPUPOOL_STUB_GL_H
typedef unsigned int GLuint;
typedef unsigned int GLenum;
#endif
