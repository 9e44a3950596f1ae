# The binary schedule format: flatc writes the reader and writer of schedule.fbs. FlatBuffers is
# headers only here, and only pleach_collective sees the generated one.
find_program(PLEACH_FLATC flatc REQUIRED)
set(schema ${PROJECT_SOURCE_DIR}/pleach/collective/formats/schedule.fbs)
set(generated ${PROJECT_BINARY_DIR}/generated)
set(header ${generated}/pleach_generated/schedule_generated.h)
add_custom_command(OUTPUT ${header}
  COMMAND ${PLEACH_FLATC} --cpp -o ${generated}/pleach_generated ${schema}
  DEPENDS ${schema} VERBATIM)
add_custom_target(schedule_schema DEPENDS ${header})
add_dependencies(generated_sources schedule_schema)
add_dependencies(pleach_collective schedule_schema)
target_include_directories(pleach_collective SYSTEM PRIVATE $<BUILD_INTERFACE:${generated}>)
target_link_libraries(pleach_collective PRIVATE $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
