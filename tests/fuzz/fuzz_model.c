/* fuzz_model.c - config.json of models, with arbitrary contents. An accepted config is written so that it reads back as
 * the same model and is written with the same text again; others are refused. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "model_io/model_config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum lvn_status read_config(struct lvn_model_config *c, const struct lvn_model **form, const char *text,
                                   int64_t bytes)
{
    json_t *root;
    LVN_TRY(lvn_json_parse("input", text, bytes, &root));
    enum lvn_status status = json_is_object(root) ? lvn_config_read(c, form, "input", root) : LVN_FORMAT;
    json_decref(root);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lvn_model_config c, back;
    const struct lvn_model *form;
    struct lvn_text text = {0}, again = {0};
    if (read_config(&c, &form, (const char *)data, (int64_t)size) == LVN_OK) {
        if (lvn_config_write(&text, form, &c, LVN_F32) != LVN_OK) abort();
        if (read_config(&back, &form, text.p, text.n) != LVN_OK) abort();
        if (back.model != c.model || back.head != c.head) abort();
        if (lvn_config_write(&again, form, &back, LVN_F32) != LVN_OK) abort();
        if (text.n != again.n || memcmp(text.p, again.p, (size_t)text.n) != 0) abort();
        lvn_text_release(&text);
        lvn_text_release(&again);
    }
    lvn_error_clear();
    return 0;
}
