/* embedded.h - a file of the source tree that the build puts into the program (tools/embed_files.cmake), as a text. */
#ifndef LVN_EMBEDDED_H
#define LVN_EMBEDDED_H

struct lvn_embedded_file {
    const char *name; /* as embed_files.cmake says; NULL: the end of a table */
    const char *text;
};

#endif
