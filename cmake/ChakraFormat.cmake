# Chakra execution traces: protoc writes the messages, which only pleach_workload sees. zlib undoes
# gzip. An installed pleach needs both libraries (pleachConfig.cmake.in).
find_package(Protobuf REQUIRED)
find_package(ZLIB REQUIRED)
set(schema ${PROJECT_SOURCE_DIR}/pleach/workload/chakra.proto)
set(generated ${PROJECT_BINARY_DIR}/generated)
set(messages ${generated}/pleach/workload/chakra.pb)
file(MAKE_DIRECTORY ${generated})
add_custom_command(OUTPUT ${messages}.h ${messages}.cc
  COMMAND protobuf::protoc --proto_path=${PROJECT_SOURCE_DIR} --cpp_out=${generated} ${schema}
  DEPENDS ${schema} VERBATIM)
add_custom_target(chakra_schema DEPENDS ${messages}.h ${messages}.cc)
add_dependencies(generated_sources chakra_schema)
add_dependencies(pleach_workload chakra_schema)
target_sources(pleach_workload PRIVATE ${messages}.cc)
set_source_files_properties(${messages}.cc PROPERTIES COMPILE_OPTIONS -w)  # Not ours to mend.
target_include_directories(pleach_workload SYSTEM PRIVATE $<BUILD_INTERFACE:${generated}>)
target_link_libraries(pleach_workload PRIVATE protobuf::libprotobuf-lite ZLIB::ZLIB)
