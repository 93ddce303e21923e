/* embedded.h - a file of the source tree that the build embeds in the program as a text (tools/embed_files.cmake). */
#ifndef LVN_EMBEDDED_H
#define LVN_EMBEDDED_H

struct lvn_embedded_file {
    const char *name; /* given to embed_files.cmake; NULL: the end of a table */
    const char *text;
};

#endif
