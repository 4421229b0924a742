#include "greet.h"

#include <stdlib.h>
#include <string.h>

static const char SPACE[] = " \t\r\n";

static int is_space(char character) {
    return character && strchr(SPACE, character);
}

enum greet_result greet(const char *name, size_t length, char **text, size_t *text_length) {
    while (length && is_space(name[0])) {
        name++;
        length--;
    }
    while (length && is_space(name[length - 1])) {
        length--;
    }
    if (!length) {
        return GREET_BLANK_NAME;
    }
    static const char before[] = "Hello, ", after[] = "!";
    size_t lead = sizeof before - 1;
    *text_length = lead + length + sizeof after - 1;
    *text = malloc(*text_length);
    if (!*text) {
        return GREET_NO_MEMORY;
    }
    memcpy(*text, before, lead);
    memcpy(*text + lead, name, length);
    memcpy(*text + lead + length, after, sizeof after - 1);
    return GREET_DONE;
}
