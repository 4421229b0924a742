// What the host calls: JSON in, JSON or an error out. The tool itself is in `greet.c`.

#include <stdlib.h>
#include <string.h>

#include "greet.h"
#include "json.h"
#include "plugin.h"

/// `code` is a stable name that agents branch on; the message says what would be right.
static bool fail(cofferdam_tool_types_tool_error_t *error, cofferdam_tool_types_error_kind_t kind,
                 const char *code, const char *message) {
    error->kind = kind;
    plugin_string_dup(&error->code, code);
    plugin_string_dup(&error->message, message);
    error->detail.is_some = false;
    return false;
}

static bool call_greet(const plugin_string_t *args, plugin_string_t *answer,
                       cofferdam_tool_types_tool_error_t *error) {
    char *name, *text = NULL;
    size_t length, text_length;
    if (!json_get_string((const char *)args->ptr, args->len, "name", &name, &length)) {
        return fail(error, COFFERDAM_TOOL_TYPES_ERROR_KIND_INVALID_ARGS, "InvalidArguments",
                    "there is no string under 'name'");
    }
    enum greet_result result = greet(name, length, &text, &text_length);
    free(name);
    if (result == GREET_BLANK_NAME) {
        return fail(error, COFFERDAM_TOOL_TYPES_ERROR_KIND_INVALID_ARGS, "BlankName",
                    "the name is blank; say whom to greet");
    }
    char *quoted = result == GREET_DONE ? json_quote(text, text_length) : NULL;
    free(text);
    if (!quoted) {
        return fail(error, COFFERDAM_TOOL_TYPES_ERROR_KIND_LIMIT, "OutOfMemory",
                    "there is not enough memory for the answer");
    }
    static const char before[] = "{\"text\":", after[] = "}";
    size_t lead = sizeof before - 1, middle = strlen(quoted);
    answer->len = lead + middle + sizeof after - 1;
    answer->ptr = malloc(answer->len);
    if (!answer->ptr) {
        free(quoted);
        return fail(error, COFFERDAM_TOOL_TYPES_ERROR_KIND_LIMIT, "OutOfMemory",
                    "there is not enough memory for the answer");
    }
    memcpy(answer->ptr, before, lead);
    memcpy(answer->ptr + lead, quoted, middle);
    memcpy(answer->ptr + lead + middle, after, sizeof after - 1);
    free(quoted);
    return true;
}

/// `cofferdam:tool/tools.call`. The host has checked `args` against the tool's input schema.
/// This function frees the arguments.
bool exports_cofferdam_tool_tools_call(plugin_string_t *name,
                                       exports_cofferdam_tool_tools_json_t *args,
                                       exports_cofferdam_tool_tools_call_context_t *context,
                                       exports_cofferdam_tool_tools_json_t *answer,
                                       exports_cofferdam_tool_tools_tool_error_t *error) {
    static const char greet_name[] = "greet";
    bool is_greet = name->len == sizeof greet_name - 1 && memcmp(name->ptr, greet_name, name->len) == 0;
    bool is_done = is_greet ? call_greet(args, answer, error)
                            : fail(error, COFFERDAM_TOOL_TYPES_ERROR_KIND_NOT_FOUND, "UnknownTool",
                                   "the plugin has no tool of that name");
    plugin_string_free(name);
    exports_cofferdam_tool_tools_json_free(args);
    exports_cofferdam_tool_tools_call_context_free(context);
    return is_done;
}
