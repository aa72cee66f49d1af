#include "options.h"

#include <string.h>

enum kind { VALUE, FLAG, LABEL };
enum { BOTH = COMMAND_RUN | COMMAND_SUBMIT };

static const struct known {
    const char *flag;
    unsigned commands;
    enum kind kind;
    size_t place;
} KNOWN[] = {
#define AT(field) offsetof(struct options, field)
    {"--gpu", BOTH, VALUE, AT(gpu)},
    {"--memory", BOTH, VALUE, AT(memory)},
    {"--mem", BOTH, VALUE, AT(memory)},
    {"--count", BOTH, VALUE, AT(count)},
    {"--model", BOTH, VALUE, AT(model)},
    {"--label", BOTH, LABEL, AT(labels)},
    {"--sharing", BOTH, VALUE, AT(sharing)},
    {"--policy", BOTH, VALUE, AT(sharing)},
    {"--name", BOTH, VALUE, AT(name)},
    {"--priority", BOTH, VALUE, AT(priority)},
    {"--max-time", BOTH, VALUE, AT(max_time)},
    {"--tenant", BOTH, VALUE, AT(tenant)},
    {"--project", BOTH, VALUE, AT(project)},
    {"--no-wait", BOTH, FLAG, AT(no_wait)},
    {"--no-fence", BOTH, FLAG, AT(no_fence)},
    {"--state-dir", BOTH, VALUE, AT(state_dir)},
    {"--no-color", BOTH, FLAG, AT(no_color)},
    {"-q", COMMAND_RUN, FLAG, AT(quiet)},
    {"--quiet", COMMAND_RUN, FLAG, AT(quiet)},
    {"-v", COMMAND_RUN, FLAG, AT(verbose)},
    {"--verbose", COMMAND_RUN, FLAG, AT(verbose)},
    {"--array", COMMAND_SUBMIT, VALUE, AT(array)},
    {"-o", COMMAND_SUBMIT, VALUE, AT(output)},
    {"--output", COMMAND_SUBMIT, VALUE, AT(output)},
#undef AT
};

static const struct known *find(const char *word, size_t length, unsigned command)
{
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if ((KNOWN[i].commands & command) && strlen(KNOWN[i].flag) == length &&
            memcmp(KNOWN[i].flag, word, length) == 0)
            return &KNOWN[i];
    return NULL;
}

static bool keep(struct options *options, const struct known *known, const char *value)
{
    char *place = (char *)options + known->place;

    if (known->kind == FLAG)
        *(bool *)place = true;
    else if (known->kind == VALUE)
        *(const char **)place = value;
    else if (options->label_count == LABELS_MAX)
        return false;
    else
        options->labels[options->label_count++] = value;
    return true;
}

/* One option with its value; how many words it took, 0 if it is not understood. */
static int take(struct options *options, char **words, unsigned command)
{
    const char *equals = strchr(words[0], '=');
    size_t length = equals ? (size_t)(equals - words[0]) : strlen(words[0]);
    const struct known *known = find(words[0], length, command);

    if (!known || (equals && (known->kind == FLAG || words[0][1] != '-')))
        return 0;
    if (known->kind == FLAG)
        return keep(options, known, NULL) ? 1 : 0;
    if (equals)
        return keep(options, known, equals + 1) ? 1 : 0;
    if (!words[1] || words[1][0] == '-')
        return 0;
    return keep(options, known, words[1]) ? 2 : 0;
}

/* `gpupool --state-dir DIR run ...`: the words before the command. An empty directory is as none. */
static char **take_leading(struct options *options, char **words)
{
    while (*words && (*words)[0] == '-') {
        int taken = strncmp(*words, "--state-dir", 11) == 0 || strcmp(*words, "--no-color") == 0
                        ? take(options, words, BOTH)
                        : 0;
        if (taken == 0)
            return NULL;
        words += taken;
    }
    return words;
}

static bool take_words(struct options *options, char **words)
{
    for (options->words = words; words[options->word_count]; options->word_count++)
        if (options->word_count == WORDS_MAX)
            return false;
    return options->word_count > 0;
}

bool options_read(int argc, char **argv, struct options *options)
{
    memset(options, 0, sizeof *options);
    char **words = argc > 1 ? take_leading(options, argv + 1) : NULL;
    if (!words || !*words)
        return false;
    options->command = strcmp(*words, "run") == 0 ? COMMAND_RUN : strcmp(*words, "submit") == 0 ? COMMAND_SUBMIT : 0;
    if (!options->command)
        return false;
    const char *leading = options->state_dir;
    options->state_dir = NULL;
    for (words++; *words && (*words)[0] == '-' && (*words)[1]; ) {
        if (strcmp(*words, "--") == 0) {
            words++;
            break;
        }
        int taken = take(options, words, options->command);
        if (taken == 0)
            return false;
        words += taken;
    }
    if (!options->state_dir || !*options->state_dir)
        options->state_dir = leading && *leading ? leading : NULL;
    return take_words(options, words);
}
