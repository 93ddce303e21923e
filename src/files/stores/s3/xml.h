/* xml.h - finds elements by name in the XML responses of object stores, and decodes their text (&amp; etc.).
 *
 * Not a parser: the responses are flat lists without comments, sections or relevant attributes. Other input is not
 * found. */
#ifndef LVN_XML_H
#define LVN_XML_H

#include "base/text.h"

/* The content of the first element `tag` within [from, to) (to NULL: to the end of the text); *end is the end of the
 * content. NULL: none. */
const char *lvn_xml_find(const char *from, const char *to, const char *tag, const char **end);
/* Add the decoded content of the first element `tag`; false if there is none. */
bool lvn_xml_text(const char *from, const char *to, const char *tag, struct lvn_text *t);
/* Add the text with XML's special characters encoded. */
void lvn_xml_encode(struct lvn_text *t, const char *text);

#endif
