#include "json.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// A position in the text that is parsed.
struct reader {
    const char *at;
    const char *end;
};

static void skip_space(struct reader *reader) {
    while (reader->at < reader->end && strchr(" \t\r\n", *reader->at)) {
        reader->at++;
    }
}

static bool take(struct reader *reader, char wanted) {
    skip_space(reader);
    if (reader->at == reader->end || *reader->at != wanted) {
        return false;
    }
    reader->at++;
    return true;
}

static bool read_hex(struct reader *reader, uint32_t *unit) {
    if (reader->end - reader->at < 4) {
        return false;
    }
    char digits[5] = {reader->at[0], reader->at[1], reader->at[2], reader->at[3], 0};
    char *rest;
    *unit = (uint32_t)strtoul(digits, &rest, 16);
    reader->at += 4;
    return *rest == 0;
}

static size_t write_utf8(char *out, uint32_t point) {
    if (point < 0x80) {
        out[0] = (char)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (char)(0xc0 | point >> 6);
        out[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (char)(0xe0 | point >> 12);
        out[1] = (char)(0x80 | (point >> 6 & 0x3f));
        out[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | point >> 18);
    out[1] = (char)(0x80 | (point >> 12 & 0x3f));
    out[2] = (char)(0x80 | (point >> 6 & 0x3f));
    out[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/// Reads the digits after `\u`: one UTF-16 unit, or a surrogate pair.
static bool read_point(struct reader *reader, uint32_t *point) {
    if (!read_hex(reader, point)) {
        return false;
    }
    if (*point < 0xd800 || *point > 0xdfff) {
        return true;
    }
    uint32_t low;
    bool is_pair = *point < 0xdc00 && reader->end - reader->at >= 2 && reader->at[0] == '\\' &&
                   reader->at[1] == 'u';
    if (!is_pair) {
        return false;
    }
    reader->at += 2;
    if (!read_hex(reader, &low) || low < 0xdc00 || low > 0xdfff) {
        return false;
    }
    *point = 0x10000 + ((*point - 0xd800) << 10) + (low - 0xdc00);
    return true;
}

static bool read_string(struct reader *reader, char **value, size_t *length) {
    if (!take(reader, '"')) {
        return false;
    }
    // An escape is never shorter than the character that it stands for.
    char *out = malloc((size_t)(reader->end - reader->at) + 1);
    if (!out) {
        return false;
    }
    size_t written = 0;
    bool is_right = true;
    while (is_right && reader->at < reader->end && *reader->at != '"') {
        char next = *reader->at++;
        if (next != '\\') {
            out[written++] = next;
            continue;
        }
        if (reader->at == reader->end) {
            break;
        }
        static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
        char name = *reader->at++;
        const char *known = name ? strchr(names, name) : NULL;
        uint32_t point;
        if (known) {
            out[written++] = means[known - names];
        } else if (name == 'u' && read_point(reader, &point)) {
            written += write_utf8(out + written, point);
        } else {
            is_right = false;
        }
    }
    if (!is_right || reader->at == reader->end) {
        free(out);
        return false;
    }
    reader->at++;
    out[written] = 0;
    *value = out;
    *length = written;
    return true;
}

/// Skips a value of any sort.
static bool skip_value(struct reader *reader) {
    size_t depth = 0;
    do {
        skip_space(reader);
        if (reader->at == reader->end) {
            return false;
        }
        char first = *reader->at;
        if (first == '"') {
            char *ignored;
            size_t length;
            if (!read_string(reader, &ignored, &length)) {
                return false;
            }
            free(ignored);
        } else if (first == '{' || first == '[') {
            depth++;
            reader->at++;
        } else if (first == '}' || first == ']') {
            depth--;
            reader->at++;
        } else if (depth > 0 && (first == ',' || first == ':')) {
            reader->at++;
        } else {
            while (reader->at < reader->end && !strchr(",:]} \t\r\n", *reader->at)) {
                reader->at++;
            }
        }
    } while (depth > 0);
    return true;
}

bool json_get_string(const char *text, size_t text_length, const char *name, char **value,
                     size_t *length) {
    struct reader reader = {text, text + text_length};
    if (!take(&reader, '{')) {
        return false;
    }
    do {
        char *key;
        size_t key_length;
        if (!read_string(&reader, &key, &key_length)) {
            return false;
        }
        bool is_it = key_length == strlen(name) && memcmp(key, name, key_length) == 0;
        free(key);
        if (!take(&reader, ':')) {
            return false;
        }
        skip_space(&reader);
        if (is_it) {
            return read_string(&reader, value, length);
        }
        if (!skip_value(&reader)) {
            return false;
        }
    } while (take(&reader, ','));
    return false;
}

char *json_quote(const char *value, size_t length) {
    // A byte becomes at most six characters, as in `\u0000`.
    char *quoted = malloc(length * 6 + 3);
    if (!quoted) {
        return NULL;
    }
    char *out = quoted;
    *out++ = '"';
    for (size_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)value[at];
        if (byte == '"' || byte == '\\') {
            *out++ = '\\';
            *out++ = (char)byte;
        } else if (byte < 0x20) {
            out += sprintf(out, "\\u%04x", byte);
        } else {
            *out++ = (char)byte;
        }
    }
    *out++ = '"';
    *out = 0;
    return quoted;
}
