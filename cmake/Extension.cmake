# A pleach with a network model, a switch model, a policy and an algorithm more than ours: for each
# a file, and a row in its table. The tables are the real ones with the row added, and are linked in
# the place of the real ones.
set(toys ${PROJECT_SOURCE_DIR}/tests/extension)
set(toy_sources ${toys}/toy_network.cc ${toys}/toy_switch.cc ${toys}/toy_policy.cc
  ${toys}/toy_algorithm.cc)

function(pleach_table_with row table)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${table})
  file(READ ${PROJECT_SOURCE_DIR}/${table} text)
  string(REPLACE ")\n\n}  // namespace" ",\n                ${row})\n\n}  // namespace" text "${text}")
  string(FIND "${text}" "${row}" place)
  if(place EQUAL -1)
    message(FATAL_ERROR "${table} has no place for ${row}")
  endif()
  set(with_row ${PROJECT_BINARY_DIR}/generated/extension/${table})
  file(CONFIGURE OUTPUT ${with_row} CONTENT "${text}" @ONLY)
  set(toy_sources ${toy_sources} ${with_row} PARENT_SCOPE)
endfunction()

pleach_table_with(kToyNetwork pleach/network/models.cc)
pleach_table_with(kToySwitch pleach/fabric/switch_models.cc)
pleach_table_with(kToyPolicy pleach/policy/policies.cc)
pleach_table_with(kToyAlgorithm pleach/synthesis/algorithms.cc)
add_executable(pleach_with_toys pleach/cli/main.cc ${toy_sources})
target_link_libraries(pleach_with_toys PRIVATE pleach_cli pleach_flags)
# What holds for every network model holds for one more.
add_executable(session_test_with_toys pleach/network/session_test.cc ${toy_sources})
target_link_libraries(session_test_with_toys PRIVATE pleach_cli pleach_flags GTest::gtest_main)
add_test(NAME extension.sessions COMMAND session_test_with_toys)
foreach(transcript toys toys_training)
  add_test(NAME extension.${transcript} COMMAND ${Python3_EXECUTABLE}
    ${PROJECT_SOURCE_DIR}/tests/cli/run_transcripts.py ${toys}/${transcript}.txt)
  set_tests_properties(extension.${transcript} PROPERTIES
    ENVIRONMENT "PLEACH=$<TARGET_FILE:pleach_with_toys>")
endforeach()
