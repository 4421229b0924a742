// The tool `greet`. Does not depend on the host or the bindings, so its tests run anywhere.

#ifndef GREET_H
#define GREET_H

#include <stddef.h>

enum greet_result { GREET_DONE, GREET_BLANK_NAME, GREET_NO_MEMORY };

/// Greets `name`: `*text` gets a greeting of `*text_length` bytes, which the caller frees.
enum greet_result greet(const char *name, size_t length, char **text, size_t *text_length);

#endif
