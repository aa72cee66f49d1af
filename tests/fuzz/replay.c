/* Gives each file named on the command line to a fuzz target; what libFuzzer does with a corpus, for any compiler. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int count, char **files)
{
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(files[i], "rb");
        if (!file || fseek(file, 0, SEEK_END))
            return perror(files[i]), 2;
        size_t size = (size_t)ftell(file);
        rewind(file);
        uint8_t *data = malloc(size ? size : 1); /* of exactly this size, so that a byte too far is seen */
        if (!data || fread(data, 1, size, file) != size)
            return perror(files[i]), 2;
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
        free(data);
    }
    printf("%d\n", count - 1);
    return 0;
}
