// Just enough JSON for one string in and one string out. For more, add a JSON library.

#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stddef.h>

/// Reads the string that an object has under `name` into `*value`, which the caller frees; a zero
/// byte follows its `*length` bytes. Returns false if there is none. The host has checked that the
/// text is JSON and fits the input schema, so this looks for nothing else that could be wrong.
bool json_get_string(const char *text, size_t text_length, const char *name, char **value,
                     size_t *length);

/// A string as JSON, with its quotation marks; the caller frees it. NULL: out of memory.
char *json_quote(const char *value, size_t length);

#endif
