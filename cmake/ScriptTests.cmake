# Tests that are programs of their own: of the source tree, the command line, the installed package.
function(pleach_script_test name)
  add_test(NAME ${name} COMMAND python3 ${ARGN})
  set_tests_properties(${name} PROPERTIES
    ENVIRONMENT "PLEACH=$<TARGET_FILE:pleach>" SKIP_RETURN_CODE 77)
endfunction()

pleach_script_test(tidy ${PROJECT_SOURCE_DIR}/tools/tidy.py ${PROJECT_SOURCE_DIR})
pleach_script_test(tidy_test ${PROJECT_SOURCE_DIR}/tools/tidy_test.py)
