/* xml.h - the little of XML that answers of object stores need: elements by name, their text without &amp; and its
 * like.
 *
 * No parser: the answers are flat lists without comments, sections or attributes that matter. What does not look so is
 * simply not found. */
#ifndef LVN_XML_H
#define LVN_XML_H

#include "base/text.h"

/* The content of the first element `tag` within [from, to) (to NULL: to its end); *end is behind it. NULL: none. */
const char *lvn_xml_find(const char *from, const char *to, const char *tag, const char **end);
/* Adds the decoded content of the first element `tag`; false when there is none. */
bool lvn_xml_text(const char *from, const char *to, const char *tag, struct lvn_text *t);
/* Adds the text with what must not stand in XML encoded. */
void lvn_xml_encode(struct lvn_text *t, const char *text);

#endif
