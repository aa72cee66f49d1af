/* Maps a CUDA device or context to a card of the share. Never changes the caller's current context. */
#ifndef GPUPOOL_CARDS_H
#define GPUPOOL_CARDS_H

#include <gpupool/cuda_all.h>

#define CARD_NONE (-1)     /* no device, no current context: the driver will say what is wrong */
#define CARD_FOREIGN (-2)  /* a card that is not in the limits */

/* Index into limits.device of a device, by its uuid; remembered. */
int card_of_device(CUdevice device);

/* Of the current context. */
int card_of_current(void);

/* Of a context, of a stream (the current context's for the default streams). */
int card_of_context(CUcontext context);
int card_of_stream(CUstream stream);

/* The driver's number for card `card`; -1: the driver does not show it (CUDA_VISIBLE_DEVICES). */
CUdevice card_device(int card);

#endif
