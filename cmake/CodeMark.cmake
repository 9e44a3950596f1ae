# The code that plans schedules, as a number that changes with any of it: a build step hashes its
# sources. The same file is that step's script: cmake -DLIST=... -DOUTPUT=... -P CodeMark.cmake.
if(CMAKE_SCRIPT_MODE_FILE)
  file(STRINGS ${LIST} sources)
  set(hashes "")
  foreach(source IN LISTS sources)
    file(SHA256 ${source} hash)
    string(APPEND hashes ${hash})
  endforeach()
  string(SHA256 hash "${hashes}")
  string(SUBSTRING ${hash} 0 16 mark)
  file(WRITE ${OUTPUT} "#include \"pleach/planning/code_mark.h\"

namespace pleach {

uint64_t code_mark() {
  return 0x${mark};
}

}  // namespace pleach
")
  return()
endif()

set(planning_sources "")
foreach(layer base topology collective synthesis network planning)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/pleach/${layer}/*.h
       ${PROJECT_SOURCE_DIR}/pleach/${layer}/*.cc)
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")
  list(APPEND planning_sources ${sources})
endforeach()
set(source ${PROJECT_BINARY_DIR}/generated/code_mark.cc)
set(list ${PROJECT_BINARY_DIR}/generated/planning_sources.txt)
list(JOIN planning_sources "\n" lines)
file(GENERATE OUTPUT ${list} CONTENT "${lines}\n")
add_custom_command(OUTPUT ${source}
  COMMAND ${CMAKE_COMMAND} -DLIST=${list} -DOUTPUT=${source} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${planning_sources} ${list} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
add_custom_target(code_mark DEPENDS ${source})
add_dependencies(generated_sources code_mark)
add_dependencies(pleach_planning code_mark)
target_sources(pleach_planning PRIVATE ${source})
