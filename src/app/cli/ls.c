/* ls.c - levin ls PATH: lists a folder here or in a store, with sizes in bytes; names of folders end in a slash. */
#include "base/redact.h"
#include "cli/cli.h"
#include "formats/json.h"
#include "stores/store.h"

enum lvn_status lvn_command_ls(struct lvn_cli *c)
{
    struct lvn_store_entries all;
    LVN_TRY(lvn_store_list(&c->settings.arena, c->operand[0], lvn_cli_on(c, LVN_FLAG_ls_recursive), &all));
    json_t *list = c->json ? json_array() : NULL;
    for (int i = 0; i < all.n; i++) {
        const struct lvn_store_entry *e = &all.entry[i];
        bool folder = e->kind == LVN_STORE_FOLDER;
        char name[4096]; /* a newline would begin another row */
        if (!c->json) lvn_redacted(name, sizeof name, e->name);
        if (e->bytes >= 0)
            lvn_cli_print(c, "%15lld  %s\n", (long long)e->bytes, name);
        else
            lvn_cli_print(c, "%15s  %s%s\n", "", name, folder ? "/" : "");
        json_t *row = list ? json_object() : NULL;
        if (!row) continue;
        json_object_set_new(row, "name", lvn_json_text(e->name, INT64_MAX));
        json_object_set_new(row, "folder", json_boolean(folder));
        if (e->bytes >= 0) json_object_set_new(row, "bytes", json_integer(e->bytes));
        json_array_append_new(list, row);
    }
    lvn_cli_add(c, "entries", list);
    return LVN_OK;
}
