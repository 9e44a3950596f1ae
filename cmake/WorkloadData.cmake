# Built-in workloads that are JSON files: a build step writes them into the library as text. The
# same file is that step's script: cmake -DDATA=... -DOUTPUT=... -P WorkloadData.cmake.
if(CMAKE_SCRIPT_MODE_FILE)
  file(GLOB files ${DATA}/*.json)
  list(SORT files)
  set(entries "")
  set(count 0)
  foreach(file IN LISTS files)
    get_filename_component(stem ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND entries "    {\"${stem}\", R\"~~~(${text})~~~\"},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(WRITE ${OUTPUT} "#include <array>

#include \"pleach/workload/models/embedded.h\"

namespace pleach {
namespace {

constexpr std::array<EmbeddedWorkload, ${count}> kFiles = {{
${entries}}};

}  // namespace

std::span<const EmbeddedWorkload> embedded_workloads() {
  return kFiles;
}

}  // namespace pleach
")
  return()
endif()

set(data ${PROJECT_SOURCE_DIR}/pleach/workload/data)
set(source ${PROJECT_BINARY_DIR}/generated/workload_data.cc)
file(GLOB data_files CONFIGURE_DEPENDS ${data}/*.json)
add_custom_command(OUTPUT ${source}
  COMMAND ${CMAKE_COMMAND} -DDATA=${data} -DOUTPUT=${source} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${data_files} ${CMAKE_CURRENT_LIST_FILE} VERBATIM)
add_custom_target(workload_data DEPENDS ${source})
add_dependencies(generated_sources workload_data)
add_dependencies(pleach_workload workload_data)
target_sources(pleach_workload PRIVATE ${source})
target_link_libraries(pleach_workload PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
