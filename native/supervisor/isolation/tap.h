/* Opens a tap interface that the agent has made, for a command that has no right to do so. */
#ifndef GPUPOOL_TAP_H
#define GPUPOOL_TAP_H

#include <stdbool.h>

/* The descriptor at which the command finds its tap. */
#define TAP_DESCRIPTOR 9

/* Opens the tap of that name in a network namespace; the caller's own namespace stays as it is. Never makes one. Returns
 * a descriptor that is closed at exec, or -1 and errno: ENODEV where there is no such interface, EBUSY where another
 * process has it. */
int tap_open(const char *network_namespace, const char *interface);

/* Moves a tap to the command's descriptor, which stays open at exec. false and errno where that fails. */
bool tap_hand_over(int tap);

#endif
