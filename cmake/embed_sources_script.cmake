# Writes a C++ file that returns the given files' names and texts (see embed_sources.cmake).
set(text "// Generated from kernel sources.\n#include <string>\n#include <vector>\n#include \"base/build_request.h\"\n")
string(APPEND text "namespace tilewright {\nstd::vector<SourceFile> embeddedSources() {\n  std::vector<SourceFile> files;\n")
string(REPLACE "," ";" files "${FILES}")
foreach(file IN LISTS files)
  file(READ ${ROOT}/${file} body HEX)
  # Hexadecimal bytes survive CMake's list and bracket rules, which raw text does not.
  string(REGEX REPLACE "(..)" "'\\\\x\\1'," bytes "${body}")
  string(APPEND text "  {\n    static const char kText[] = {${bytes}0};\n")
  string(APPEND text "    files.push_back({\"${file}\", std::string(kText, sizeof(kText) - 1)});\n  }\n")
endforeach()
string(APPEND text "  return files;\n}\n}  // namespace tilewright\n")
file(WRITE ${OUTPUT} "${text}")
