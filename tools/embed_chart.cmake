# embed_chart.cmake - cmake -DROOT=DIR -DOUT=FILE -P embed_chart.cmake: writes the files of deploy/helm/levin that levin
# launch --kubernetes reads (Chart.yaml, values.yaml, the templates) as C strings, the table lvn_chart_files. Called by the
# build. The notes, which Helm alone prints, are left out.
set(chart ${ROOT}/deploy/helm/levin)
file(GLOB names RELATIVE ${chart} ${chart}/templates/*.tpl ${chart}/templates/*.yaml)
list(SORT names)
file(WRITE ${OUT}.new "#include \"cli/launch/chart.h\"\n\nconst struct lvn_chart_file lvn_chart_files[] = {\n")
foreach(name Chart.yaml values.yaml ${names})
  file(READ ${chart}/${name} text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n\"" text "${text}")
  file(APPEND ${OUT}.new "{\"${name}\",\n\"${text}\"},\n")
endforeach()
file(APPEND ${OUT}.new "{0, 0}};\n")
file(RENAME ${OUT}.new ${OUT})
