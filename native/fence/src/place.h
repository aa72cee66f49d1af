/* Where this copy of the stand-in belongs, and its one way to speak to a person. */
#ifndef GPUPOOL_PLACE_H
#define GPUPOOL_PLACE_H

/* The base directory that the agent filled into this copy. */
const char *fence_base(void);

/* One line on stderr, "gpupool: ...", whatever the program has done with stdio. */
void fence_say(const char *text);

#endif
