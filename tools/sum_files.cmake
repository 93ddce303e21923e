# sum_files.cmake - cmake -DOUT=FILE -DMACRO=NAME -DFILES=A:B:C -P sum_files.cmake: defines the macro as a checksum of the contents
# of the files. Called by the build.
string(REPLACE ":" ";" FILES "${FILES}")
set(sums "")
foreach(path ${FILES})
  file(SHA256 ${path} sum)
  string(APPEND sums ${sum})
endforeach()
string(SHA256 sum "${sums}")
file(WRITE ${OUT} "#define ${MACRO} \"${sum}\"\n")
