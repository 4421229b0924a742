// Tests of the tool on this machine.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "greet.h"
#include "json.h"

static int failures = 0;

static void expect(int is_right, const char *what) {
    if (!is_right) {
        fprintf(stderr, "wrong: %s\n", what);
        failures++;
    }
}

static void expect_name(const char *text, const char *wanted) {
    char *value = NULL;
    size_t length = 0;
    int found = json_get_string(text, strlen(text), "name", &value, &length);
    expect(wanted ? found && length == strlen(wanted) && memcmp(value, wanted, length) == 0 : !found,
           text);
    free(value);
}

int main(void) {
    char *text = NULL;
    size_t length = 0;
    expect(greet(" Ada ", 5, &text, &length) == GREET_DONE, "somebody");
    expect(text && length == 11 && memcmp(text, "Hello, Ada!", 11) == 0, "the greeting");
    free(text);
    expect(greet(" ", 1, &text, &length) == GREET_BLANK_NAME, "nobody");

    expect_name("{\"name\": \"Ada\"}", "Ada");
    expect_name("{ \"a\" : [1, {\"name\": \"x\"}, \"]\"], \"name\":\"\\u00e4\\n\\ud83d\\ude00\"}",
                "\xc3\xa4\n\xf0\x9f\x98\x80");
    expect_name("{\"other\": \"Ada\"}", NULL);
    expect_name("{}", NULL);
    expect_name("{\"name\": 1}", NULL);
    expect_name("{\"name\": \"\\ud83d\"}", NULL);
    expect_name("{\"name\": \"Ada", NULL);

    char *quoted = json_quote("a\"\\\n", 4);
    expect(quoted && strcmp(quoted, "\"a\\\"\\\\\\u000a\"") == 0, "quoting");
    free(quoted);
    return failures != 0;
}
