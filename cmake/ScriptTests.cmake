# Tests that are programs of their own: of the source tree, the command line, the installed package.
find_package(Python3 REQUIRED COMPONENTS Interpreter)

function(pleach_script_test name)
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${ARGN})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "PLEACH=$<TARGET_FILE:pleach>;XDG_CACHE_HOME=${PROJECT_BINARY_DIR}/cache")
endfunction()

pleach_script_test(tidy ${PROJECT_SOURCE_DIR}/tools/tidy.py ${PROJECT_SOURCE_DIR})
pleach_script_test(tidy_test ${PROJECT_SOURCE_DIR}/tools/tidy_test.py)
pleach_script_test(contributing ${PROJECT_SOURCE_DIR}/tests/contributing_test.py)
pleach_script_test(testbed ${PROJECT_SOURCE_DIR}/tests/testbed_test.py)

set(cli_tests ${PROJECT_SOURCE_DIR}/tests/cli)
pleach_script_test(cli.processes ${cli_tests}/processes_test.py)
pleach_script_test(cli.limits ${cli_tests}/limits_test.py)
pleach_script_test(cli.namespaces ${cli_tests}/namespaces_test.py)
pleach_script_test(cli.strangers ${cli_tests}/strangers_test.py)
file(GLOB transcripts CONFIGURE_DEPENDS ${cli_tests}/*.txt)
foreach(transcript ${transcripts} ${PROJECT_SOURCE_DIR}/README.md)
  get_filename_component(stem ${transcript} NAME_WE)
  pleach_script_test(cli.${stem} ${cli_tests}/run_transcripts.py ${transcript})
endforeach()

# The semantics again, by other means: what is simulated and what is promised must agree with it.
set(independent ${PROJECT_SOURCE_DIR}/tests/independent)
pleach_script_test(independent.flow ${independent}/flow_agreement_test.py)
pleach_script_test(independent.fred ${independent}/fred_agreement_test.py)
# Debian's python3: it has scipy.
add_test(NAME independent.bounds COMMAND /usr/bin/python3 ${independent}/bounds_lp_test.py)
set_tests_properties(independent.bounds PROPERTIES ENVIRONMENT "PLEACH=$<TARGET_FILE:pleach>")

pleach_script_test(example.straggler ${PROJECT_SOURCE_DIR}/examples/straggler.py
  --pleach $<TARGET_FILE:pleach>)

# The C interface, and a C program that stands on it.
add_executable(all_reduce_example ${PROJECT_SOURCE_DIR}/examples/all_reduce.c)
set_target_properties(all_reduce_example PROPERTIES C_STANDARD 99 C_EXTENSIONS OFF)
target_compile_options(all_reduce_example PRIVATE -Wall -Wextra -pedantic -Werror)
target_link_options(all_reduce_example PRIVATE
  $<TARGET_PROPERTY:pleach_flags,INTERFACE_LINK_OPTIONS>)
target_link_libraries(all_reduce_example PRIVATE pleach_shared)
pleach_script_test(c_interface ${PROJECT_SOURCE_DIR}/tests/c_interface_test.py
  ${CMAKE_C_COMPILER} ${CMAKE_CXX_COMPILER} $<TARGET_FILE:pleach_shared>
  $<TARGET_FILE:all_reduce_example> ${PROJECT_SOURCE_DIR})

# Installs this build, then configures, builds and runs a program that only knows the package.
pleach_script_test(consumer ${PROJECT_SOURCE_DIR}/tests/consumer/consumer_test.py
  ${CMAKE_COMMAND} ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR}/tests/consumer)
if(PLEACH_SANITIZE)
  set_tests_properties(consumer PROPERTIES DISABLED TRUE)  # An install is for plain programs.
endif()
