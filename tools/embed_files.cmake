# embed_files.cmake - cmake -DOUT=FILE -DTABLE=NAME -DFILES=A:B:C -P embed_files.cmake: writes the files as C strings, the
# table `const struct lvn_embedded_file NAME[]` (formats/embedded.h), which ends with a NULL name. Called by the build. A file's
# name in the table is its name without its folder.
string(REPLACE ":" ";" FILES "${FILES}")
file(WRITE ${OUT}.new "#include \"formats/embedded.h\"\n\nextern const struct lvn_embedded_file ${TABLE}[];\n"
                      "const struct lvn_embedded_file ${TABLE}[] = {\n")
foreach(path ${FILES})
  get_filename_component(name ${path} NAME)
  file(READ ${path} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "??" "?\\?" text "${text}") # a trigraph begins so
  string(REPLACE "\n" "\\n\"\n\"" text "${text}")
  file(APPEND ${OUT}.new "{\"${name}\",\n\"${text}\"},\n")
endforeach()
file(APPEND ${OUT}.new "{0, 0}};\n")
file(RENAME ${OUT}.new ${OUT})
