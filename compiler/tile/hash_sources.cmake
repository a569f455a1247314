# Writes a C++ file with one SHA-256 over the named files: cmake -DOUTPUT=... -DFILES=a,b,c -P hash_sources.cmake
string(REPLACE "," ";" files "${FILES}")
set(hashes "")
foreach(file IN LISTS files)
  file(SHA256 ${file} hash)
  string(APPEND hashes ${hash})
endforeach()
string(SHA256 hash "${hashes}")
string(SUBSTRING ${hash} 0 16 hash)
file(WRITE ${OUTPUT} "// Generated: a hash of the tile compiler's sources.\n#include <string_view>\n\n"
                     "namespace tilewright {\nstd::string_view tileSourcesHash() { return \"${hash}\"; }\n}\n")
