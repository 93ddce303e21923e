/* tmp_folder.h - where unit tests make files of their own name: TMPDIR, or /tmp. */
#ifndef LVN_TMP_FOLDER_H
#define LVN_TMP_FOLDER_H

#include <stdlib.h>

static inline const char *tmp_folder(void)
{
    const char *top = getenv("TMPDIR");
    return top && *top ? top : "/tmp";
}

#endif
